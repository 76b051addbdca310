import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { MAIN } from '../helpers/weir.ts';

const DIST = dirname(MAIN);

/** The files of the build that this one loads before it runs. */
function loadedWith(name: string, found = new Set<string>()): ReadonlySet<string> {
  if (found.has(name)) return found;
  found.add(name);
  const text = readFileSync(join(DIST, name), 'utf8');
  for (const [, imported = ''] of text.matchAll(/(?:^|;|\n)(?:import|export)[^;'"]*["']\.\/([^"']+\.js)["']/g))
    loadedWith(imported, found);
  return found;
}

/** The files whose code is in these ones, by their source maps. */
const sourcesOf = (files: Iterable<string>): readonly string[] =>
  Array.from(files).flatMap((name) => {
    if (name === 'commonjs.js') return [];
    return (JSON.parse(readFileSync(join(DIST, `${name}.map`), 'utf8')) as { sources: string[] }).sources;
  });

/** The packages with code in these files. */
function packagesIn(files: Iterable<string>): readonly string[] {
  const names = sourcesOf(files).flatMap(
    (path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\/(?!.*node_modules)/.exec(path)?.[1] ?? [],
  );
  return [...new Set(names)].sort();
}

test('the command line loads no package before it knows whether to start the service', () => {
  expect(packagesIn(loadedWith('main.js'))).toEqual([]);
});

test('the service loads no client of a store, no gRPC library, no command line and no exporter before it knows its settings', () => {
  const files = loadedWith('serve.js');
  expect(files.size).toBeGreaterThan(1);
  const packages = packagesIn(files);
  expect(packages).toContain('pino');
  expect(
    packages.filter((name) => /^(@grpc|protobufjs|ioredis|commander|prom-client|hot-shots|js-yaml)/.test(name)),
  ).toEqual([]);
});

/** What only the process that serves operators needs; a decider loads what some questions need at the first of them. */
const FOR_OPERATORS =
  /\/src\/(serve\/control|operate\/(console|admin\/(\w+-operations|explain|named-counters|answers))|operate\/observe\/(prometheus|statsd)|edge\/(http\/(debug|profile)|xds)|lab\/(diff|advise))/;

test('the process that answers callers loads nothing for operators, and no reader of YAML, at its start', () => {
  const sources = sourcesOf(loadedWith('serve.js'));
  expect(sources.filter((path) => path.endsWith('/src/serve/decider/decider.ts'))).toHaveLength(1);
  expect(sources.filter((path) => FOR_OPERATORS.test(path))).toEqual([]);
});

test('the control process reads rules before it loads pages for operators', () => {
  const sources = sourcesOf(loadedWith('control-process.js'));
  expect(sources.filter((path) => path.endsWith('/src/engine/rules/read/read.ts'))).toHaveLength(1);
  expect(sources.filter((path) => /\/src\/(operate\/console|edge\/http|h2)\//.test(path))).toEqual([]);
});

test('the engine loads no package but the reader of addresses before it reads rules or opens a store', () => {
  expect(packagesIn(loadedWith('engine.js'))).toEqual(['ipaddr.js']);
});
