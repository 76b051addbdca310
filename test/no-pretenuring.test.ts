import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { transform } from 'esbuild';

const run = promisify(execFile);

/** Makes objects of which most survive, after which V8 of Node 20 makes them in its old generation; how many are young. */
const script = `
  import { allocateYoung } from './no-pretenuring.mjs';
  allocateYoung();
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
  folder = await mkdtemp(join(tmpdir(), 'pretenuring-'));
  const { code } = await transform(await readFile('src/no-pretenuring.ts', 'utf8'), { loader: 'ts' });
  await writeFile(join(folder, 'no-pretenuring.mjs'), code);
  await writeFile(join(folder, 'script.mjs'), script);
});
afterAll(() => rm(folder, { recursive: true }));

test('objects are made in the young generation, however many of their kind have survived', async () => {
  const { stdout } = await run(process.execPath, ['--allow-natives-syntax', join(folder, 'script.mjs')]);
  expect(Number(stdout)).toBe(1_000);
});
