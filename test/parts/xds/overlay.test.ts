import '../../helpers/realm.ts';
import { mkdtempSync, renameSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describeRule } from '../../../src/edge/listing/describe.ts';
import { formatProblem } from '../../../src/engine/rules/read/problem.ts';
import type { RuleBook } from '../../../src/engine/rules/reload/book.ts';
import { plainPath } from '../../../src/engine/rules/reload/files.ts';
import type { LoadedRules } from '../../../src/engine/rules/reload/load.ts';
import { Overlay } from '../../../src/engine/rules/reload/overlay-files.ts';
import { openDiscoveredRules } from '../../../src/parts/xds/book.ts';
import { type Resource, startControlPlane } from '../../helpers/control-plane.ts';
import { LISTENER, listener, POLICY, quotaPolicy, ROUTE, selected, sharedPolicy } from '../../helpers/envoy-gateway.ts';
import { freePort, type Running, start } from '../../helpers/process.ts';
import { goControlPlane } from '../../helpers/tools.ts';
import { until } from '../../helpers/until.ts';

/** Rules as Envoy Gateway generates them, from the library that it uses. */

let folder: string;
let port: number;
let controlPlane: Running;
let book: RuleBook;
/** The result of each load: the number of rules, or the problems. */
let loads: (number | readonly string[])[];
let warnings: readonly string[];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'overlay-'));
  port = await freePort();
  loads = [];
  warnings = [];
  controlPlane = await start(await goControlPlane(), [`127.0.0.1:${port}`], { readsInput: true });
  await controlPlane.waitFor('listening');
});
afterEach(async () => {
  book.close();
  await controlPlane.stop();
});

/** Writes the overlay atomically. */
function overlay(...lines: readonly string[]): void {
  writeFileSync(join(folder, 'new'), `${lines.join('\n')}\n`);
  renameSync(join(folder, 'new'), join(folder, 'overlay.yaml'));
}

async function open(at = port): Promise<void> {
  book = openDiscoveredRules(
    {
      serverUrl: `localhost:${at}`,
      nodeId: 'weir',
      nodeMetadata: new Map(),
      additionalHeaders: new Map(),
      tls: undefined,
      backOff: { initialMs: 100, maxMs: 200, jitter: true },
      maxMessageBytes: 4 * 1024 * 1024,
    },
    {
      mergeDomains: false,
      overlay: await Overlay.open(plainPath(join(folder, 'overlay.yaml')), 20),
      onLoad(loaded: LoadedRules) {
        loads.push(loaded.ok ? loaded.rules.rules.length : loaded.problems.map(formatProblem).map(here));
        if (loaded.ok) warnings = loaded.warnings.map(formatProblem).map(here);
      },
      onUp: () => {},
      onDown: () => {},
    },
  );
}

const here = (text: string): string => text.replaceAll(`${folder}/`, '');

function push(version: string, ...resources: readonly Resource[]): void {
  controlPlane.write(`${JSON.stringify({ version, resources })}\n`);
}
/** Waits for a request with a version, a nonce, and a problem with this prefix. */
const asked = (version: string, nonce: number, problem = ''): Promise<void> =>
  controlPlane.waitFor(`request "${version}" "${nonce}" "${problem}`);

/** The current rules, without their common part. */
const inForce = (): string =>
  [...(book.rules()?.rules ?? [])]
    .map((rule) => here(describeRule(rule)).replace('quota_mode: false, ', ''))
    .join('\n');
const untilInForce = (text: string): Promise<void> => until(`${text} in ${inForce()}`, () => inForce().includes(text));

const perSecond = (requests: number) => ({ unit: 'SECOND', requests_per_unit: requests });

/** The nodes of a chain in an overlay's form, with this limit on the last one. */
const chain = (nodes: readonly string[], limit: string): string => {
  const [node, ...others] = nodes;
  if (node === undefined) return limit;
  return others.length === 0 ? `{${node}, ${limit}}` : `{${node}, descriptors: [${chain(others, limit)}]}`;
};

describe('five lines turn a rule that Envoy Gateway generates into a token bucket, if it selects', () => {
  const nodesOf: Readonly<Record<keyof typeof selected, readonly string[]>> = {
    'each value of a header': ['key: rule-0-match-0'],
    'one value of a header': ['key: rule-0-match-0, value: rule-0-match-0'],
    'all traffic': ['key: rule-0-match--1, value: rule-0-match--1'],
    'a method': ['key: rule-0-method, value: rule-0-method'],
    'a path': ['key: rule-0-path, value: rule-0-path'],
    'a network': ['key: masked_remote_address, value: 192.168.0.0/16'],
    'all but a network': ['key: masked_remote_address, value: "invert:192.168.0.0/16"'],
    'each address of a network': ['key: masked_remote_address, value: 192.168.0.0/16', 'key: remote_address'],
    'two headers and a network': [
      'key: rule-0-match-0, value: rule-0-match-0',
      'key: rule-0-match-1, value: rule-0-match-1',
      'key: masked_remote_address, value: 0.0.0.0/0',
    ],
    'a header, in shadow mode': ['key: rule-0-match-0, value: rule-0-match-0'],
  };

  test.each(Object.keys(selected) as (keyof typeof selected)[])('%s', async (what) => {
    const limit = 'rate_limit: {algorithm: token_bucket, burst: 20}';
    overlay(
      `domain: ${LISTENER}`,
      'descriptors:',
      `- key: ${ROUTE}`,
      `  value: ${ROUTE}`,
      `  descriptors: [${chain(nodesOf[what], limit)}]`,
    );
    await open();
    push('v1', listener(selected[what](perSecond(5))));
    await asked('v1', 1);
    expect(inForce()).toContain(
      'algorithm: token_bucket, burst: 20, overlaid: algorithm (overlay.yaml:5), burst (overlay.yaml:5)',
    );
    expect(inForce()).toContain('requests_per_unit=5, ');
    expect(warnings).toEqual([]);
  });
});

/** An overlay for the rule on each value of a header. */
const overRoute = (limit: string): readonly string[] => [
  `domain: ${LISTENER}`,
  'descriptors:',
  `- key: ${ROUTE}`,
  `  value: ${ROUTE}`,
  `  descriptors: [{key: rule-0-match-0, rate_limit: {${limit}}}]`,
];
const perUser = (requests: number): Resource => listener(selected['each value of a header'](perSecond(requests)));

test('the overlay applies to each push', async () => {
  overlay(...overRoute('algorithm: token_bucket, burst: 20'));
  await open();
  push('v1', perUser(5));
  await untilInForce('requests_per_unit=5, shadow_mode: false, algorithm: token_bucket, burst: 20');
  push('v2', perUser(6), sharedPolicy(selected['all traffic'](perSecond(1))));
  await untilInForce('requests_per_unit=6, shadow_mode: false, algorithm: token_bucket, burst: 20');
  expect(inForce()).toContain(`${POLICY}.${POLICY}/rule/0_${POLICY}/rule/0.rule-0-match--1`);
});

test('a change of the overlay applies to the newest push, which the control plane need not send again', async () => {
  overlay(...overRoute('algorithm: token_bucket, burst: 20'));
  await open();
  push('v1', perUser(5));
  await untilInForce('burst: 20');
  overlay(...overRoute('algorithm: leaky_bucket, on_store_failure: allow'));
  await untilInForce('algorithm: leaky_bucket, burst: 1, on_store_failure: allow');
  expect(loads).toEqual([1, 1]);
  await asked('v1', 1);
  expect(controlPlane.output().match(/^request /gm)).toHaveLength(2); // the first, and the acknowledgement
});

test('a change of the overlay applies while the control plane is down', async () => {
  overlay(...overRoute('soft: 2'));
  await open();
  push('v1', perUser(5));
  await untilInForce('soft: 2');
  await controlPlane.stop();
  overlay(...overRoute('soft: 3'));
  await untilInForce('soft: 3');
});

test('an invalid overlay changes nothing, and pushes are loaded with the previous one', async () => {
  overlay(...overRoute('soft: 2'));
  await open();
  push('v1', perUser(5));
  await untilInForce('soft: 2');
  overlay(...overRoute('burst: 2'));
  await until('it was reported', () => loads.length > 1);
  const problem = expect.stringMatching(
    /^overlay\.yaml:5: descriptors\[0\]\.descriptors\[0\]\.rate_limit\.burst: cannot be used with fixed_window/,
  );
  expect(loads).toEqual([1, [problem]]);
  push('v2', perUser(6));
  await asked('v2', 2);
  await untilInForce('requests_per_unit=6, shadow_mode: false, soft: 2');
  expect(loads).toEqual([1, [problem], 1, [problem]]);
});

test('a push that conflicts with the overlay is refused with the line of the overlay, and accepted once they are compatible', async () => {
  overlay(...overRoute('on_store_failure: local, local_share: 4'));
  await open();
  push('v1', perUser(5));
  await untilInForce('local_share: 4');
  push('v2', perUser(3));
  await asked('v1', 2, `${folder}/overlay.yaml:5: must be 1 to requests_per_unit`);
  expect(inForce()).toContain('requests_per_unit=5, ');
  overlay(...overRoute('on_store_failure: local, local_share: 3'));
  await untilInForce('requests_per_unit=3, shadow_mode: false, on_store_failure: local, local_share: 3');
  await controlPlane.waitFor((printed) => /request "v2" "\d+" ""/.test(printed)); // the acknowledgement
});

test('an invalid push stays refused when the overlay changes, and the overlay applies to the current rules', async () => {
  overlay(...overRoute('soft: 2'));
  await open();
  push('v1', perUser(5));
  await untilInForce('soft: 2');
  push('v2', perUser(6), { ...perUser(7), name: 'another' });
  await controlPlane.waitFor((printed) => /request "v1" "2" ".*duplicate domain/.test(printed));
  overlay(...overRoute('soft: 3'));
  await untilInForce('soft: 3');
  expect(inForce()).toContain('requests_per_unit=5, ');
  expect(`${loads.at(-1)}`).toContain('duplicate domain'); // the newest version still has this problem
});

test('a push without the overlaid rule is accepted with a warning', async () => {
  overlay(...overRoute('soft: 2'));
  await open();
  push('v1', listener(selected['all traffic'](perSecond(5))));
  await asked('v1', 1);
  const parent = `${LISTENER}.${ROUTE}_${ROUTE}`;
  expect(warnings).toEqual([
    `overlay.yaml:5: warning: descriptors[0].descriptors[0]: no rule has the path '${parent}.rule-0-match-0' (key 'rule-0-match-0' without a value); ` +
      `the nearest is '${parent}.rule-0-match--1_rule-0-match--1' (key 'rule-0-match--1', value 'rule-0-match--1'; ${LISTENER})`,
  ]);
});

test('a tenant of an AI Gateway is refused by its own quota once the overlay removes quota mode', async () => {
  overlay(
    'domain: ai-gateway-quota',
    'descriptors:',
    '- {key: backend_name, value: default/openai, descriptors: [{key: model_name_override, value: gpt-4, descriptors: [',
    '    {key: rule-0-x-tenant|acme-match-0, value: rule-0-x-tenant|acme-match-0, quota_mode: false}]}]}',
  );
  const other = await startControlPlane(); // the library's release has no quota mode
  await open(other.port);
  const perMinute = { unit: 'MINUTE', requests_per_unit: 9 };
  const verdict = await other.serve('v1', [quotaPolicy(perMinute, perMinute)]);
  other.stop();
  expect(verdict).toEqual({ ack: 'v1' });
  expect([...(book.rules()?.rules ?? [])].map(({ quota }) => quota)).toEqual([false, true]);
});
