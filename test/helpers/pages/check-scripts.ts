import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { proofs } from '../../../proof/proofs.ts';
import { isSetting } from './check-weir.ts';
import { PROJECT, textOf } from './page.ts';
import type { SimpleCommand } from './shell.ts';

interface Package {
  readonly name: string;
  readonly scripts: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
}
const { name, scripts, devDependencies } = JSON.parse(textOf('package.json')) as Package; // the project's own
/** Packages that a reader may install: this project's, its dependencies, and those that the examples need. */
const installable = new Set([name, 'weir-client', './client', ...Object.keys(devDependencies), 'bullmq']);

/** The paths of the source files in a folder. */
export const sourcesIn = (folder: string): readonly string[] =>
  readdirSync(join(PROJECT, folder), { recursive: true, encoding: 'utf8' })
    .filter((path) => /\.[jt]s$/.test(path))
    .map((path) => join(folder, path));

export const isReadIn = (variable: string, files: readonly string[]): boolean =>
  files.some((file) => readFileSync(join(PROJECT, file), 'utf8').includes(variable));

const helps = new Map<string, Promise<string>>();
/** The output of a command line with --help. */
function helpOf(line: string): Promise<string> {
  const found = helps.get(line);
  if (found) return found;
  const env = { ...process.env, PATH: `${PROJECT}/node_modules/.bin:${process.env.PATH}` };
  const help = promisify(execFile)('sh', ['-c', `${line} --help`], { cwd: PROJECT, env }).then(({ stdout }) => stdout);
  helps.set(line, help);
  return help;
}

/** The arguments that a help text does not have as flags. */
const unknownFlags = (args: readonly string[], help: string): readonly string[] =>
  args.filter(
    (arg) => arg.startsWith('--') && arg !== '--' && arg !== '--help' && !new RegExp(`${arg}(?![\\w-])`).test(help),
  );

/** Lists the problems of `npm run proof -- NAME FLAGS`. */
async function checkProof([name = 'list', ...args]: readonly string[]): Promise<readonly string[]> {
  if (['list', '--help', 'NAME'].includes(name)) return [];
  const proof = proofs.get(name);
  if (!proof) return [`there is no proof ${name}`];
  if (!args.some((arg) => arg.startsWith('--'))) return [];
  const { usage } = await proof.load(); // test/proof/run.long.test.ts checks that --help prints it
  return unknownFlags(args, usage).map((flag) => `npm run proof -- ${name} has no flag ${flag}`);
}

/** Lists the problems of `npx tsx FILE FLAGS`. */
export async function checkTsx({ words: [, , file = '', ...args] }: SimpleCommand): Promise<readonly string[]> {
  if (!existsSync(join(PROJECT, file))) return [`there is no ${file}`];
  return unknownFlags(args, await helpOf(`tsx ${file}`)).map((flag) => `${file} has no flag ${flag}`);
}

/** Lists the problems of `npm run SCRIPT -- FLAGS`, `npm ci` and `npm install PACKAGE`. */
export async function checkNpm({ assignments, words }: SimpleCommand): Promise<readonly string[]> {
  const [, verb = '', ...rest] = words;
  const variables = assignments
    .filter(
      ([variable]) => !isSetting(variable) && !isReadIn(variable, [...sourcesIn('proof'), ...sourcesIn('test/runner')]),
    )
    .map(([variable]) => `npm ${verb} does not read ${variable}`);
  if (verb === 'install' || verb === 'pack')
    return rest.filter((one) => !installable.has(one)).map((one) => `${one} is no package of this project`);
  if (verb === 'ci') return rest;
  const [script = verb, ...args] = verb === 'run' ? rest : [verb, ...rest];
  if (scripts[script] === undefined) return [...variables, `package.json has no script ${script}`];
  if (args.length === 0) return variables;
  if (script === 'proof') return [...variables, ...(await checkProof(args.slice(1)))];
  // the build is skipped, since other tests use dist/ meanwhile
  const unknown = unknownFlags(args, await helpOf(scripts[script].replace('npm run --silent build && ', '')));
  return [
    ...variables,
    ...(args[0] === '--' ? [] : [`npm run ${script}: its arguments need -- before them`]),
    ...unknown.map((flag) => `npm run ${script} has no flag ${flag}`),
  ];
}

/** Lists the problems of `NAME=value npx jest PATTERN -t TITLE`: no test matches the pattern or title, or none reads the variable. */
export function checkJest({ assignments, words }: SimpleCommand): readonly string[] {
  const args = words.slice(2);
  const tests = sourcesIn('test');
  const pattern = args.find((arg) => !arg.startsWith('-')) ?? '';
  const files = tests.filter((path) => path.endsWith('.test.ts') && new RegExp(pattern).test(path));
  const title = args.includes('-t') ? (args[args.indexOf('-t') + 1] ?? '') : '';
  return [
    ...(files.length > 0 ? [] : [`no test matches ${pattern}`]),
    ...(isReadIn(title, files) ? [] : [`no test that matches ${pattern} has the title ${title}`]),
    ...assignments.flatMap(([variable]) => (isReadIn(`env.${variable}`, tests) ? [] : [`no test reads ${variable}`])),
  ];
}
