import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { checkCall, checkDocker, checkHelm } from './check-deployment.ts';
import { checkJest, checkNpm, checkTsx, isReadIn, sourcesIn } from './check-scripts.ts';
import { checkWeir, isSetting } from './check-weir.ts';
import { PROJECT } from './page.ts';
import type { SimpleCommand } from './shell.ts';

/** Lists the problems of a command that can be found without running it; undefined: no check handles its program. */
type Check = (command: SimpleCommand, isMention: boolean) => readonly string[] | undefined | Promise<readonly string[]>;

const checks: Readonly<Record<string, Check>> = {
  weir: checkWeir,
  npm: checkNpm,
  npx: (command, isMention) =>
    command.words[1] === 'weir'
      ? checkWeir(command, isMention)
      : command.words[1] === 'jest'
        ? checkJest(command)
        : command.words[1] === 'tsx'
          ? checkTsx(command)
          : undefined,
  helm: checkHelm,
  docker: checkDocker,
  curl: checkCall,
  grpcurl: checkCall,
  ghz: checkCall,
  envoy: ({ words }) => words.filter((word) => word.endsWith('.yaml') && !existsSync(join(PROJECT, word))),
  export: ({ words }) => words.slice(1).flatMap((word) => unknownVariable(word.replace(/=.*/s, ''))),
  zcat: () => [],
  gzip: () => [],
  head: () => [],
  sort: () => [],
  uniq: () => [],
  echo: () => [],
};

/** The words that begin a command in a sentence: programs, and `for` for a loop. */
export const programs = [
  ...['weir', 'npm', 'npx', 'helm', 'docker', 'curl', 'grpcurl', 'ghz', 'envoy', 'for'],
  ...['kubectl', 'istioctl', 'redis-cli', 'systemctl', 'git', 'cargo'],
];

/** Accepts settings of the service, and variables that benchmarks read. */
const unknownVariable = (name: string): readonly string[] =>
  isSetting(name) || isReadIn(name, sourcesIn('proof')) ? [] : [`${name} is no setting`];

/** Folders of the project: a path into one of them must exist. */
const INSIDE = /^(?:deploy|docs|test|proof|src|client|proto|config)\/[\w./-]+$/;

export async function checkCommand(command: SimpleCommand, isMention: boolean): Promise<readonly string[] | undefined> {
  const { words, assignments } = command;
  const [program] = words;
  if (program === undefined) return assignments.flatMap(([name]) => unknownVariable(name));
  const found = await checks[program]?.(command, isMention);
  if (found === undefined) return undefined;
  const isPattern = words[1] === 'jest';
  const missing = words.filter((word) => !isPattern && INSIDE.test(word) && !existsSync(join(PROJECT, word)));
  return [...found, ...missing.map((path) => `there is no ${path}`)];
}
