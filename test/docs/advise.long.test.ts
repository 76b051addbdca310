import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { start } from '../helpers/process.ts';
import { MAIN } from '../helpers/weir.ts';

const page = readFileSync(fileURLToPath(new URL('../../docs/advise.md', import.meta.url)), 'utf8');
const [, example = ''] = page.split('## Example');
const blocks = Array.from(example.matchAll(/^```(\w+)\n(.*?)^```/gms), ([, kind = '', text = '']) => ({ kind, text }));
const textsOf = (kind: string): readonly string[] => blocks.filter((one) => one.kind === kind).map(({ text }) => text);

const folder = mkdtempSync(join(tmpdir(), 'advise-'));

/** Runs a command of the page in the folder. */
async function run(line: string): Promise<string> {
  const command = line.replaceAll('npx weir', `"${process.execPath}" "${MAIN}"`);
  const running = await start('sh', ['-c', command], {
    cwd: folder,
    env: { PATH: process.env.PATH, TMPDIR: process.env.TMPDIR },
    name: 'weir',
  });
  const { code } = await running.exited;
  if (code !== 0) throw new Error(`${line} ended with ${code}: ${running.output()}`);
  return running.output();
}

test('the commands of the example in docs/advise.md print the output on the page', async () => {
  const [rules = '', overlay = ''] = textsOf('yaml');
  writeFileSync(join(folder, 'rules.yaml'), rules);
  const outputs: string[] = [];
  for (const line of textsOf('sh').join('').trimEnd().split('\n')) outputs.push(await run(line));
  const [, advised, , checked, , replayed] = outputs;
  expect([advised, replayed]).toEqual(textsOf('text'));
  expect(checked).toContain('1 overlaid');
  expect(readFileSync(join(folder, 'advice.yaml'), 'utf8')).toBe(overlay);
});
