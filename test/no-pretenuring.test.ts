import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { transform } from 'esbuild';

const run = promisify(execFile);

/**
 * Makes objects of which most survive, until V8 makes them in its old generation, or for so many rounds; how many of
 * 1,000 more are young.
 */
const script = `
  import { allocateYoung } from './no-pretenuring.mjs';
  if (process.argv[2] === 'young') allocateYoung();
  const isYoung = new Function('value', 'return %InYoungGeneration(value)');
  const make = (number) => ({ number, list: [number] });
  let kept = [];
  for (let round = 0; round < Number(process.argv[3]) && isYoung(make(0)); round++) {
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

const youngOf = async (mode: string, rounds: number): Promise<number> => {
  const args = ['--allow-natives-syntax', join(folder, 'script.mjs'), mode, String(rounds)];
  return Number((await run(process.execPath, args)).stdout);
};

test('objects are made in the young generation, however many of their kind have survived', async () => {
  expect(await youngOf('young', 60)).toBe(1_000);
});

const isOfNode20 = process.version.startsWith('v20.');
(isOfNode20 ? test : test.skip)('V8 of Node 20 would make them in the old one (later ones may not)', async () => {
  expect(await youngOf('as V8 decides', 2_000)).toBe(0);
});
