import { readFile, writeFile } from 'node:fs/promises';
import { formatProblem } from '../../engine/rules/read/problem.ts';
import { learnMapping } from '../../lab/replay/access-logs.ts';
import type { Input } from '../../lab/replay/input.ts';
import { type Mapping, parseMapping } from '../../lab/replay/mapping/mapping.ts';
import type { LogFormatName } from '../../lab/replay/readers/format-names.ts';
import { reportPage } from '../../lab/replay/report/page.ts';
import type { PageSource } from '../../lab/replay/report/rule-section.ts';
import { CommandFailed } from './client.ts';

/** @throws CommandFailed  the mapping cannot be read, or is invalid */
export async function mappingAt(path: string): Promise<Mapping> {
  const parsed = parseMapping(path, await orFail(path, () => readFile(path, 'utf8')));
  if ('mapping' in parsed) return parsed.mapping;
  throw new CommandFailed(`the mapping is wrong:\n${parsed.problems.map(formatProblem).join('\n')}`);
}

/** @throws CommandFailed  the page cannot be written */
export const writePage = (path: string, report: PageSource): Promise<void> =>
  orFail(path, () => writeFile(path, reportPage(report)));

/** Prints a first mapping for an access log. */
export async function learn(
  inputs: readonly Input[],
  format: LogFormatName | undefined,
  print: (text: string) => void,
): Promise<void> {
  const [input, more] = inputs;
  if (!input || more) throw new CommandFailed(`--learn reads one log, got ${inputs.length}`);
  const text = await learnMapping(input, format);
  if (text === undefined) throw new CommandFailed(`${input.name}: no line has a known format: name it with --format`);
  print(text.trimEnd());
}

async function orFail<T>(path: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    throw new CommandFailed(`${path}: ${error instanceof Error ? error.message : error}`);
  }
}
