import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runCommand } from '../helpers/command.ts';

const WORKFLOW = join(__dirname, '../../deploy/github/rule-changes.yaml');

test('the workflow that checks changes of rules uses options that `weir replay` has', async () => {
  const { stdout } = await runCommand(['replay', '--help']);
  const options = Array.from(readFileSync(WORKFLOW, 'utf8').matchAll(/weir replay (.*)/g), ([, line = '']) => line);
  const used = options.flatMap((line) => line.match(/--[\w-]+/g) ?? []);
  expect(used).toEqual(['--rules', '--against', '--max-newly-refused', '--html']);
  for (const option of used) expect(stdout).toContain(`${option} <`);
});
