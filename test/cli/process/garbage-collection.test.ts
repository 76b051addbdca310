import { execFile } from 'node:child_process';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { transform } from 'esbuild';

const run = promisify(execFile);

/**
 * Creates objects, most of which survive, so that Node 20's V8 allocates them in the old generation. Prints how many
 * are young.
 */
const script = `
  import { collectCheaply } from './garbage-collection.mjs';
  collectCheaply();
  const isYoung = new Function('value', 'return %InYoungGeneration(value)');
  const make = (number) => ({ number, list: [number] });
  let kept = [];
  for (let round = 0; round < 60; round++) {
    kept = [];
    for (let at = 0; at < 100_000; at++) kept.push(make(at));
  }
  let young = 0;
  for (let at = 0; at < 1_000; at++) if (isYoung(make(at))) young++;
  console.log(young);
`;

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'garbage-'));
  const { code } = await transform(await readFile('src/cli/process/garbage-collection.ts', 'utf8'), { loader: 'ts' });
  await writeFile(join(folder, 'garbage-collection.mjs'), code);
  await writeFile(join(folder, 'script.mjs'), script);
});

test('objects are allocated in the young generation, regardless of how many of their kind have survived', async () => {
  const { stdout, stderr } = await run(process.execPath, ['--allow-natives-syntax', join(folder, 'script.mjs')]);
  expect(stderr).toBe(''); // V8 reports unknown flags
  expect(Number(stdout)).toBe(1_000);
});

test('one thread collects the young generation', async () => {
  const { stdout } = await run(process.execPath, [
    '--trace-gc',
    '--trace-parallel-scavenge',
    '--allow-natives-syntax',
    join(folder, 'script.mjs'),
  ]);
  const collections = stdout.match(/: Scavenge /g)?.length ?? 0;
  const parts = stdout.match(/ scavenge\[/g)?.length ?? 0; // a line for each thread that took part
  expect(collections).toBeGreaterThan(10);
  expect(parts / collections).toBeLessThan(1.25); // V8 of Node 26 has a few more lines than collections
});
