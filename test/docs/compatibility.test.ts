import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { algorithmNames, findRow, namedAlgorithms } from '../../src/engine/holds/limits.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string): string => readFileSync(join(PROJECT, path), 'utf8');
const page = read('docs/compatibility.md');

test('every algorithm is stable or experimental', () => {
  for (const name of namedAlgorithms) expect(page).toContain(`\`${name}\``);
});

test('every service of the gRPC port is stable or experimental', () => {
  const files = readdirSync(join(PROJECT, 'proto'), { recursive: true, encoding: 'utf8' });
  const services = files
    .filter((path) => path.endsWith('.proto'))
    .flatMap((path) => {
      const text = read(join('proto', path));
      const [, name = ''] = /^package ([\w.]+);/m.exec(text) ?? [];
      return Array.from(text.matchAll(/^service (\w+)/gm), ([, service]) => `${name}.${service}`);
    })
    .filter((name) => !name.startsWith('envoy.service.discovery.')); // Weir is its client
  expect(services.length).toBeGreaterThan(5);
  for (const name of services) expect(page).toContain(`\`${name}\``);
});

test('every key of a counter whose state has changed is listed', () => {
  for (const name of algorithmNames) {
    const { version = 1 } = findRow(name).state;
    if (version > 1) expect(page).toContain(`became \`${name}.${version}|…\``);
  }
});
