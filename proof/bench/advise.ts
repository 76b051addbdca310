import { parseArgs } from 'node:util';
import { parseCount } from '../options.ts';
import { percent } from '../tables/figures.ts';
import { table } from '../tables/table.ts';
import { judge } from './advise-judgement.ts';
import { type AdviseModel, adviseModels } from './advise-models.ts';

export const usage = `Usage: npm run proof -- advise [SEEDS]

Lets weir advise propose a limit from the traffic of models whose legitimate and abusive keys are known, and applies it
to other traffic of the same model, for each of 100 seeds or the given number. Prints the shares of legitimate and of
abusive keys that the limit hits. The same seeds always give the same figures. Takes some minutes. Exits with 1 if a
proposal hits more than 1 % of the legitimate keys or less than 95 % of the abusive ones, except for the abusive keys of
the second model, whose rates are too low to find.
`;

const MAX_LEGITIMATE = 0.01;
const LEAST_ABUSIVE = 0.95;

const shown = (share: number): string => percent(share, 2);
const mean = (all: readonly number[]): number => all.reduce((sum, one) => sum + one, 0) / all.length;

const head = [
  ...['traffic', 'limited', 'proposed'],
  ...['legitimate keys hit', 'most', 'abusive keys hit', 'least', 'abusive requests refused'],
];
export async function run(args: readonly string[]): Promise<void> {
  const [written = '100'] = parseArgs({ args, allowPositionals: true }).positionals;
  const seeds = parseCount('SEEDS', written);
  const rows: string[][] = [];
  for (const model of adviseModels) rows.push(await createRow(model, seeds));
  console.log(table(head, 3, rows));
}

async function createRow(model: AdviseModel, seeds: number): Promise<string[]> {
  const legitimate: number[] = [];
  const abusive: number[] = [];
  const refused: number[] = [];
  const proposed = new Map<string, number[]>();
  for (let seed = 1; seed <= seeds; seed++) {
    const { proposal, legitimateHit, abusiveHit, abusiveRefused } = await judge(model, seed, seeds + seed);
    legitimate.push(legitimateHit);
    if (abusiveHit !== undefined) abusive.push(abusiveHit);
    if (abusiveRefused !== undefined) refused.push(abusiveRefused);
    proposed.set(proposal.algorithm, [...(proposed.get(proposal.algorithm) ?? []), proposal.requestsPerUnit]);
  }
  const has = abusive.length > 0;
  const isMissed = has && !model.isTooClose && Math.min(...abusive) < LEAST_ABUSIVE;
  if (Math.max(...legitimate) > MAX_LEGITIMATE || isMissed) process.exitCode = 1;
  return [
    ...[model.name, model.limited, Array.from(proposed, formatRange).join('; ')],
    ...[shown(mean(legitimate)), shown(Math.max(...legitimate))],
    ...(has ? [mean(abusive), Math.min(...abusive), mean(refused)].map(shown) : ['none', 'none', 'none']),
  ];
}

function formatRange([algorithm, limits]: readonly [string, readonly number[]]): string {
  const [least, most] = [Math.min(...limits), Math.max(...limits)];
  return `${algorithm}, ${least === most ? least : `${least} to ${most}`}`;
}
