import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { actionlint } from '../helpers/tools.ts';

const PROJECT = join(__dirname, '../..');
const WORKFLOW = join(PROJECT, 'deploy/github/rule-changes.yaml');

describe('the workflow that checks changes of rules', () => {
  test('has no problem that actionlint finds', async () => {
    const { stdout } = await promisify(execFile)(await actionlint(), ['-no-color', WORKFLOW]);
    expect(stdout).toBe('');
  });

  test('uses options that `weir replay` has', async () => {
    const main = join(PROJECT, 'dist/main.js');
    const { stdout } = await promisify(execFile)(process.execPath, [main, 'replay', '--help']);
    const options = Array.from(readFileSync(WORKFLOW, 'utf8').matchAll(/weir replay (.*)/g), ([, line = '']) => line);
    const used = options.flatMap((line) => line.match(/--[\w-]+/g) ?? []);
    expect(used).toEqual(['--rules', '--against', '--max-newly-refused', '--html']);
    for (const option of used) expect(stdout).toContain(`${option} <`);
  });
});
