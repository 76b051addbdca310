import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { nearest } from '../src/base/nearest.ts';
import { longForms, otherCommands, proofs } from './proofs.ts';

const usage = `Usage: npm run proof -- list | NAME... [options of the proof]

Runs what measures or checks the project: one proof with its options, or several one after another. Builds the service
first if one of them needs it and the sources have changed. Exits with 1 if a proof fails.

  list         prints the names, other commands, and the long forms of tests, with a sentence each
  NAME --help  prints the options of a proof
  --help       prints this text
`;

const isHelp = (argument: string): boolean => argument === '--help' || argument === '-h';

runProofs(process.argv.slice(2)).catch((error: Error) => {
  console.error(error.message);
  process.exitCode = 1;
});

async function runProofs(args: readonly string[]): Promise<void> {
  const [first = 'list'] = args;
  if (isHelp(first)) return void process.stdout.write(usage);
  if (first === 'list') return console.log(list());
  const end = args.findIndex((name) => !proofs.has(name));
  const names = end === -1 ? args : args.slice(0, end);
  if (names.length === 0) throw new Error(unknown(first));
  const options = args.slice(names.length);
  const chosen = names.flatMap((name) => proofs.get(name) ?? []);
  if (options.some(isHelp)) {
    for (const { load } of chosen) process.stdout.write((await load()).usage);
    return;
  }
  if (chosen.some(({ needsBuild }) => needsBuild)) build();
  for (const { load } of chosen) await (await load()).run(options);
}

function build(): void {
  const file = fileURLToPath(new URL('../deploy/build-if-changed.js', import.meta.url));
  execFileSync(process.execPath, [file], { stdio: 'inherit' });
}

function list(): string {
  const named = Array.from(proofs, ([name, { about }]) => [name, about] as const);
  return [
    `npm run proof -- NAME\n${table(named)}`,
    `Other commands\n${table(otherCommands)}`,
    `Long forms of tests, after npm run build\n${table(longForms)}`,
  ].join('\n\n');
}

function table(rows: typeof otherCommands): string {
  const width = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, about]) => `  ${name.padEnd(width)}  ${about}`).join('\n');
}

function unknown(written: string): string {
  const meant = nearest(written, [...proofs.keys()]);
  const hint = meant === undefined ? 'npm run proof -- list prints the names' : `did you mean ${meant}?`;
  return `there is no proof '${written}'; ${hint}`;
}
