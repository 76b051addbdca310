import '../helpers/realm.ts';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describeRule } from '../../src/edge/listing/describe.ts';
import { format } from '../../src/engine/rules/read/format.ts';
import type { Resource } from '../helpers/control-plane.ts';
import { listener, quotaPolicy, ROUTE, selected } from '../helpers/envoy-gateway.ts';
import { loadText } from '../helpers/rules.ts';

const page = readFileSync(fileURLToPath(new URL('../../docs/overlay.md', import.meta.url)), 'utf8');

/** The overlays of the page: its YAML that begins with a domain. */
const overlays = Array.from(
  page.matchAll(/^( *)```yaml\n\1(domain: .*?)^\1```/gms),
  ([, indentation = '', text = '']) => text.replaceAll(`\n${indentation}`, '\n'),
);

/** The rules as a file: JSON is YAML. */
function rulesOf(resource: Resource, overlay: string) {
  const files = [{ name: '/etc/weir/overlay.yaml', text: overlay }];
  const loaded = loadText(JSON.stringify({ ...resource, name: undefined }), { overlay: files });
  return loaded.ok
    ? { rules: loaded.rules.rules, problems: loaded.warnings }
    : { rules: [], problems: loaded.problems };
}

test('the overlay for Envoy Gateway has five lines and the effect that the page describes', () => {
  const [overlay = ''] = overlays;
  expect(overlay.trimEnd().split('\n')).toHaveLength(5);
  const generated = listener(selected['each value of a header']({ unit: 'SECOND', requests_per_unit: 10 }));
  const shown = (overlaid: string): string =>
    [...rulesOf(generated, overlaid).rules].map(describeRule).join().replaceAll(ROUTE, 'ROUTE');
  expect(page).toContain(`   ${shown('')}\n`);
  expect(rulesOf(generated, overlay).problems).toEqual([]);
  const [, properties = 'a line that begins with algorithm'] = /\n +(algorithm: .*)\n/.exec(page) ?? [];
  expect(shown(overlay)).toBe(`${shown('')}, ${properties}`);
});

test('the overlay for AI Gateway removes quota mode from a tenant', () => {
  const [, overlay = ''] = overlays;
  const perMinute = { unit: 'MINUTE', requests_per_unit: 9 };
  const { rules, problems } = rulesOf(quotaPolicy(perMinute, perMinute), overlay);
  expect({ problems, quota: [...rules].map(({ quota }) => quota) }).toEqual({ problems: [], quota: [false, true] });
});

test('the page names every key that a node or a limit may have', () => {
  const keys = [...Object.keys(format.node), ...Object.keys(format.rate_limit)];
  const structure = ['key', 'value', 'rate_limit', 'descriptors'];
  expect(keys.filter((key) => !structure.includes(key) && !page.includes(`\`${key}\``))).toEqual([]);
});
