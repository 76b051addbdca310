import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { showUsage } from '../deploy/usage.ts';

showUsage(
  `Usage: npm run findings -- [NAME]

Runs the scripts of findings/ one by one, or the one named, and prints the output of those whose behaviour has changed.
`,
  1,
);

const folder = fileURLToPath(new URL('.', import.meta.url));
const wanted = process.argv[2] === undefined ? undefined : `${process.argv[2]}.sh`;
const scripts = readdirSync(folder).filter((file) => file.endsWith('.sh') && file === (wanted ?? file));
if (scripts.length === 0) throw new Error(`expected the name of a finding, got '${process.argv[2]}'`);

let changed = 0;
for (const script of scripts) {
  const { status, stdout, stderr } = spawnSync('bash', [`${folder}${script}`], { encoding: 'utf8', timeout: 300_000 });
  process.stdout.write(`${script}: ${status === 0 ? 'as described' : `changed, or not run\n${stdout}${stderr}`}\n`);
  if (status !== 0) changed++;
}
process.stdout.write(`${changed} of ${scripts.length} changed\n`);
process.exitCode = changed > 0 ? 1 : 0;
