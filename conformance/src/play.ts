import { setTimeout as sleep } from 'node:timers/promises';
import { type Case, type Step, unitMs } from './case.ts';
import { isExpected } from './compare.ts';
import type { RuleFolder } from './rule-folder.ts';
import type { Reply, Target } from './target.ts';

/** How long statistics may take to arrive. */
const STATISTICS_MS = 8_000;
const POLL_MS = 50;

/** Codes of a request that the server refuses to answer: INVALID_ARGUMENT, or UNKNOWN as envoyproxy/ratelimit does. */
const ERROR_CODES = [2, 3, 13, 14];

/** Plays a case whose rules are in force. @returns what came instead of what was expected, a text for each step */
export async function playCase(one: Case, target: Target, folder: RuleFolder): Promise<readonly string[]> {
  if (one.unit === 'SECOND') await sleep(unitMs.SECOND - (Date.now() % unitMs.SECOND) + 5);
  const differences: string[] = [];
  try {
    for (const [at, step] of one.steps.entries()) {
      const difference = await playStep(step, target, folder);
      if (difference !== undefined) differences.push(`step ${at + 1} (${step.do}): ${difference}`);
    }
  } catch (error) {
    differences.push(error instanceof Error ? error.message : String(error));
  }
  return differences;
}

/** @returns the difference; undefined if there is none */
async function playStep(step: Step, target: Target, folder: RuleFolder): Promise<string | undefined> {
  switch (step.do) {
    case 'rls':
      return step.parallel === undefined ? ask(step, target) : askAtOnce(step, step.parallel, target);
    case 'kuadrant_check':
      return ask(step, target, ['kuadrant', 'CheckRateLimit']);
    case 'kuadrant_report':
      return ask(step, target, ['kuadrant', 'Report']);
    case 'json':
      return compare(step, await target.json(step));
    case 'health':
      return compare(step, await target.call('health', 'Check', { service: step.service ?? '' }));
    case 'stats':
      return compareStatistics(step, target);
    case 'reload':
      return reload(step, folder);
    default:
      return 'the kit does not know this step';
  }
}

async function ask(
  step: Step,
  target: Target,
  [service, method]: readonly ['rls' | 'kuadrant', string] = ['rls', 'ShouldRateLimit'],
): Promise<string | undefined> {
  let reply: Reply = {};
  for (let time = 0; time < (step.repeat ?? 1); time++)
    reply = await target.decide(step.request ?? {}, service, method);
  return compare(step, reply);
}

async function askAtOnce(step: Step, parallel: number, target: Target): Promise<string | undefined> {
  const replies = await Promise.all(Array.from({ length: parallel }, () => target.decide(step.request ?? {})));
  const admitted = replies.filter(({ overall_code: code }) => code === 'OK').length;
  return compare(step, { admitted });
}

function compare({ expect }: Step, came: Reply): string | undefined {
  if (!expect) return undefined;
  const { grpc_message: _, ...wanted } = expect; // servers word their errors themselves
  const isError = ERROR_CODES.includes(Number(wanted.grpc_status)) && ERROR_CODES.includes(Number(came.grpc_status));
  if (isError || isExpected(wanted, came, Date.now())) return undefined;
  return `expected ${JSON.stringify(wanted)}, came ${JSON.stringify(came)}`;
}

async function compareStatistics({ expect = {} }: Step, { counters }: Target): Promise<string | undefined> {
  const wrong = (): readonly string[] =>
    Object.entries(expect).flatMap(([name, count]) =>
      counters.get(name) === count ? [] : [`expected ${name} to be ${count}, came ${counters.get(name) ?? 0}`],
    );
  for (const endMs = Date.now() + STATISTICS_MS; wrong().length > 0 && Date.now() < endMs; ) await sleep(POLL_MS);
  return wrong()[0];
}

async function reload(
  { write = {}, delete: gone = [], expect = {} }: Step,
  folder: RuleFolder,
): Promise<string | undefined> {
  if (expect.outcome !== 'rejected')
    return (await folder.load(write, gone)) ? undefined : 'the changed files did not come into force';
  return (await folder.comesIntoForce(write, gone)) ? 'the invalid file came into force' : undefined;
}
