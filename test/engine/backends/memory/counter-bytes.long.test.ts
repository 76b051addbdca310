import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/** Runs a script of `processes/` in a separate process. @returns its output */
async function run(script: string, args: readonly string[], nodeOptions: readonly string[] = []): Promise<string> {
  const path = fileURLToPath(new URL(`processes/${script}`, import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [...nodeOptions, '--import', 'tsx', path, ...args]);
  return stdout;
}

test('the estimated bytes of counters are within a quarter of their actual size, even after all were displaced', async () => {
  const ratios: Record<string, readonly number[]> = JSON.parse(await run('counter-bytes.ts', []));
  expect(Object.keys(ratios)).toHaveLength(5);
  for (const [what, ofRounds] of Object.entries(ratios)) {
    const wrong = ofRounds.filter((ratio) => !(ratio > 0.75 && ratio < 1.25));
    expect([what, wrong]).toEqual([what, []]);
  }
});

describe('a flood of 180 MB, 300,000 keys of 440 characters, in a process with a heap of 64 MiB', () => {
  const heap = ['--max-old-space-size=64'];

  test('is survived with a bound of 16 MiB', async () => {
    expect(await run('flood.ts', ['300000', String(16 * 2 ** 20)], heap)).toBe('survived\n');
  });

  test('ends the process without a bound', async () => {
    await expect(run('flood.ts', ['300000'], heap)).rejects.toThrow(/heap/);
  });
});
