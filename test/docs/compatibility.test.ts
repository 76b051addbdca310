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

test('the matrix of what was run has the versions that tests install', () => {
  const tools = read('test/helpers/tools.ts');
  const pinned = ['ENVOY', 'GRPCIO', 'NEWEST_NODE'].map(
    (name) => new RegExp(`${name}_VERSION = '(.+)'`).exec(tools)?.[1],
  );
  const sources = Array.from(tools.matchAll(/(?:gateway|istio\.io\/api)': \['v([\d.]+)'/g), ([, version]) => version);
  const modules = ['ghz', 'grpcurl', 'helm', 'kubeconform', 'kustomize', 'compose', 'h2spec'].map(
    (name) => /^require \S+ v([\d.]+)/m.exec(read(`test/tools/${name}/go.mod`))?.[1],
  );
  const frameworks = Array.from(
    read('test/client/package.long.test.ts').matchAll(
      /(?:'(?:express|fastify|koa|bullmq)@|nestOf\(')(\d+\.\d+\.\d+)'/g,
    ),
    ([, version]) => version,
  );
  const versions = [...pinned, ...sources, ...modules, ...frameworks];
  expect(versions.length).toBeGreaterThan(18);
  expect(versions.filter((version) => !version || !page.includes(version))).toEqual([]);
});

test('each minor release of the changelog has a dated end of life, half a year after it at the earliest', () => {
  const released = Array.from(
    read('CHANGELOG.md').matchAll(/^## (\d+\.\d+)\.0 - (\S+)$/gm),
    ([, minor = '', date = '']) => ({
      minor,
      date,
    }),
  );
  expect(released.length).toBeGreaterThan(0);
  for (const { minor, date } of released) {
    const [, until = ''] =
      new RegExp(`^\\| ${minor} \\| ${date} \\| (\\d{4}-\\d\\d-\\d\\d) \\|$`, 'm').exec(page) ?? [];
    const halfYearLater = new Date(date);
    halfYearLater.setUTCMonth(halfYearLater.getUTCMonth() + 6);
    expect({ minor, isLater: until >= halfYearLater.toISOString().slice(0, 10) }).toEqual({ minor, isLater: true });
  }
});
