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

/** The packages with code in these files, by their source maps. */
function packagesIn(files: Iterable<string>): readonly string[] {
  const sources = Array.from(files).flatMap((name) => {
    if (name === 'commonjs.js') return [];
    return (JSON.parse(readFileSync(join(DIST, `${name}.map`), 'utf8')) as { sources: string[] }).sources;
  });
  const names = sources.flatMap(
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
  expect(packages).toEqual(expect.arrayContaining(['js-yaml', 'pino']));
  expect(packages.filter((name) => /^(@grpc|protobufjs|ioredis|commander|prom-client|hot-shots)/.test(name))).toEqual(
    [],
  );
});

test('the engine loads no package but the reader of addresses before it reads rules or opens a store', () => {
  expect(packagesIn(loadedWith('engine.js'))).toEqual(['ipaddr.js']);
});
