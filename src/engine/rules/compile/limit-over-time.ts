import { limitTimes } from '../../../parts/limit-times.ts';
import type { LimitOverTime, RuleLimit, RuleSchedule } from '../match/tree.ts';
import type { Block } from '../read/block.ts';
import type { Problems } from '../read/problem.ts';
import { buildLimit, type NodeModes } from './limits.ts';

type LimitBlock = Block<'rate_limit'>;

interface NodeLimits {
  /** For listing: the node's own in order, then those of schedules. */
  readonly limits: readonly RuleLimit[];
  /** When each limit applies; undefined if all always apply. */
  readonly schedule: RuleSchedule | undefined;
}

/** What reads the times of limits; undefined if the part was taken out. */
const [timing] = Object.values(limitTimes);

/** Reads the limits of a node with their times. Invalid ones are left out: `problems` has the reasons then. */
export function buildLimits(
  blocks: readonly LimitBlock[],
  modesOf: (block: LimitBlock) => NodeModes,
  problems: Problems,
): NodeLimits {
  const built = blocks.flatMap((block, at) => {
    const modes = modesOf(block);
    const build = (one: LimitBlock, found: Problems): RuleLimit | undefined => buildLimit(one, modes, found);
    const own = build(block, problems);
    const limits = timing ? timing.read(block, { of: at, own, build }, problems) : own && [{ limit: own }];
    return limits ? [limits] : [];
  });
  const overTime = withOwnCounters(built);
  return { limits: allLimits(overTime), schedule: timing?.schedule(overTime) };
}

function allLimits(limits: readonly LimitOverTime[]): readonly RuleLimit[] {
  const own = limits.flatMap((one) => one.at(-1)?.limit ?? []);
  return [...own, ...limits.flatMap((one) => one.slice(0, -1).flatMap(({ limit }) => limit ?? []))];
}

/**
 * Gives limits of a node with the same algorithm and window separate counters. Limits of one schedule share theirs. The
 * node's own limits are numbered first, so that adding an entry to a schedule renames none of their counters.
 */
function withOwnCounters(limits: readonly LimitOverTime[]): readonly LimitOverTime[] {
  const seen = new Map<string, number>();
  const numbered = limits.map(() => new Map<string, number>());
  const number = (of: number, counter: string): void => {
    if (numbered[of]?.has(counter)) return;
    const place = seen.get(counter) ?? 0;
    numbered[of]?.set(counter, place);
    seen.set(counter, place + 1);
  };
  for (const listed of [limits.map((one) => one.slice(-1)), limits])
    for (const [of, one] of listed.entries()) for (const { limit } of one) if (limit) number(of, limit.limit.counter);
  return limits.map((one, of) =>
    one.map((at) => {
      const place = numbered[of]?.get(at.limit?.limit.counter ?? '') ?? 0;
      if (!at.limit || place === 0) return at;
      const { limit } = at.limit;
      return { ...at, limit: { ...at.limit, limit: { ...limit, counter: `${limit.counter}#${place}` } } };
    }),
  );
}
