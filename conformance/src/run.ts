import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Case, unitMs } from './case.ts';
import { isolated } from './cases.ts';
import { playCase } from './play.ts';
import { RuleFolder } from './rule-folder.ts';
import type { Target } from './target.ts';

/** What the server did in a case. */
export interface Result {
  readonly of: Case;
  readonly outcome: 'passed' | 'failed';
  /** What came instead of what was expected; empty if it passed. */
  readonly differences: readonly string[];
  readonly ms: number;
}

export interface RunOptions {
  /** The folder from which the server reads its rules. */
  readonly rulesDir: string;
  /** How long the server may take to read changed files. */
  readonly reloadMs: number;
}

/** The cases fall into one window if it lasts at least this long. */
const WINDOW_LEFT_MS = 15_000;
const AT_ONCE = 8;

const UNREAD = {
  outcome: 'failed',
  differences: ['the server does not read its rules from this folder, or does not refuse hits on a limit of 0'],
  ms: 0,
} as const;

/** Plays the cases. Those that change rules while the server runs come last, one by one. */
export async function runCases(
  cases: readonly Case[],
  target: Target,
  { rulesDir, reloadMs }: RunOptions,
): Promise<readonly Result[]> {
  const run = randomBytes(3).toString('hex');
  const folder = new RuleFolder(rulesDir, target, { run, limitMs: reloadMs });
  const all = cases.map((one, at) => ({ of: one, own: isolated(one, `${at}r${run}`) }));
  const reloads = all.filter(({ of }) => of.steps.some((step) => step.do === 'reload'));
  const steady = all.filter((one) => !reloads.includes(one));
  const results: Result[] = [];
  try {
    if (!(await folder.load({}))) return cases.map((of) => ({ of, ...UNREAD }));
    results.push(...(await playGroup(steady, target, folder)));
    for (const one of reloads) results.push(await playReload(one, target, folder));
  } finally {
    folder.remove(all.flatMap(({ own }) => fileNames(own)));
  }
  return cases.flatMap((one) => results.find(({ of }) => of === one) ?? []);
}

interface Prepared {
  readonly of: Case;
  /** With domains and files of its own. */
  readonly own: Case;
}

const fileNames = ({ files, steps }: Case): readonly string[] => [
  ...Object.keys(files),
  ...steps.flatMap(({ write = {} }) => Object.keys(write)),
];

/** Loads all files together; if the server refuses them, by halves, so that one case does not fail the others. */
async function playGroup(group: readonly Prepared[], target: Target, folder: RuleFolder): Promise<readonly Result[]> {
  if (group.length === 0) return [];
  const files = Object.assign({}, ...group.map(({ own }) => own.files)) as Case['files'];
  if (await folder.load(files)) {
    await awaitWindow();
    return playTogether(group, target, folder);
  }
  folder.remove(Object.keys(files));
  const [first] = group;
  if (group.length === 1 && first)
    return [{ of: first.of, outcome: 'failed', differences: ['the server did not load the rules'], ms: 0 }];
  const half = Math.ceil(group.length / 2);
  const left = await playGroup(group.slice(0, half), target, folder);
  return [...left, ...(await playGroup(group.slice(half), target, folder))];
}

async function playTogether(
  group: readonly Prepared[],
  target: Target,
  folder: RuleFolder,
): Promise<readonly Result[]> {
  const results: Result[] = [];
  const waiting = [...group];
  const work = async (): Promise<void> => {
    for (let next = waiting.shift(); next; next = waiting.shift()) results.push(await playOne(next, target, folder));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return results;
}

async function playOne({ of, own }: Prepared, target: Target, folder: RuleFolder): Promise<Result> {
  const startMs = Date.now();
  const differences = await playCase(own, target, folder);
  const outcome = differences.length === 0 ? 'passed' : 'failed';
  return { of, outcome, differences, ms: Date.now() - startMs };
}

async function playReload(one: Prepared, target: Target, folder: RuleFolder): Promise<Result> {
  const isLoaded = await folder.load(one.own.files);
  await awaitWindow();
  const result = isLoaded
    ? await playOne(one, target, folder)
    : ({ of: one.of, outcome: 'failed', differences: ['the server did not load the rules'], ms: 0 } as const);
  folder.remove(fileNames(one.own));
  return result;
}

/** Waits for the next minute if this one is nearly over. */
async function awaitWindow(): Promise<void> {
  const leftMs = unitMs.MINUTE - (Date.now() % unitMs.MINUTE);
  if (leftMs < WINDOW_LEFT_MS) await sleep(leftMs + 20);
}
