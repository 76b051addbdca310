import {
  type Call,
  type Clocks,
  earliest,
  enough,
  type Finding,
  hasPassed,
  type Judge,
  latest,
  mayCount,
  times,
} from './call.ts';
import { isExact, type Limit } from './limits.ts';
import { Sums } from './sums.ts';

const perMs = ({ limit, windowMs }: Limit): number => limit / windowMs;

/**
 * Between any two instants pass at most the burst and what flows in between them. And a call is refused only if so few
 * tokens can have been left: the least there can be is what remains if every call took its tokens as late as possible.
 * What an answer says is left lies between that and the most that can be left by the first rule.
 */
export const judgeBucket: Judge = (calls, limit, clocks) => [
  ...judgeInflow(calls, limit, clocks),
  ...judgeLevels(calls, limit, clocks),
];

/**
 * For all instants a < b: the hits that certainly passed between them are those answered up to b, less those begun
 * before a. Their excess over the inflow, answered(b) - rate b - (begun(a) - rate a), must not exceed the burst; the
 * least second term is kept while b advances, so all pairs are compared in one pass.
 */
function judgeInflow(calls: readonly Call[], limit: Limit, clocks: Clocks): readonly Finding[] {
  const passed = calls.filter(hasPassed);
  const byEnd = [...passed].sort((a, b) => latest(a, clocks) - latest(b, clocks));
  const most = limit.burst + limit.slack;
  const rate = perMs(limit);
  let [next, begun, answered] = [0, 0, 0];
  let least = { value: Number.POSITIVE_INFINITY, fromMs: 0 };
  for (const call of byEnd) {
    const toMs = latest(call, clocks);
    for (let first = passed[next]; first && earliest(first, clocks) <= toMs; first = passed[++next]) {
      const fromMs = earliest(first, clocks);
      const value = begun - rate * fromMs;
      if (value < least.value) least = { value, fromMs };
      begun += first.hits;
    }
    answered += call.hits;
    const excess = answered - rate * toMs - least.value;
    if (excess > most + ROUNDING) return [overflow(passed, least.fromMs, toMs, limit, clocks)];
  }
  return [];
}

/** Sums of fractions are not exact. */
const ROUNDING = 1e-6;

function overflow(passed: readonly Call[], fromMs: number, toMs: number, limit: Limit, clocks: Clocks): Finding {
  const inside = passed.filter((call) => earliest(call, clocks) >= fromMs && latest(call, clocks) <= toMs);
  const most = Math.floor(limit.burst + limit.slack + perMs(limit) * (toMs - fromMs));
  const hits = inside.reduce((sum, call) => sum + call.hits, 0);
  return {
    why: `between ${times(fromMs)} and ${times(toMs)} at most ${most} could pass; ${hits} did`,
    calls: enough(inside, most),
  };
}

/** Answers that the number of tokens before them cannot explain. */
function judgeLevels(calls: readonly Call[], limit: Limit, clocks: Clocks): readonly Finding[] {
  const lowest = lowestLevels(calls, limit, clocks);
  const highest = highestLevels(calls, limit, clocks);
  for (const call of calls) {
    if (call.outcome === 'unknown') continue;
    const low = lowest(call);
    if (call.outcome === 'refused') {
      if (low < Math.max(1, call.hits) + limit.early) continue;
      return [{ why: `refused although at least ${Math.floor(low)} tokens were there`, calls: [call] }];
    }
    if (Number.isNaN(call.remaining) || !isExact(limit)) continue;
    const [said, high] = [call.remaining + call.hits, highest(call)];
    // What is left is often stated as the limit at most, since it is shown beside the limit.
    const isTooFew = said < Math.floor(low - ROUNDING) && call.remaining < limit.limit;
    if (isTooFew || said > high + ROUNDING)
      return [
        {
          why: `states ${said} tokens before it, but ${low.toFixed(2)} to ${high.toFixed(2)} were there`,
          calls: [call],
        },
      ];
  }
  return [];
}

/** The tokens before a call if every other one took its own as late as possible. Calls must come as they began. */
function lowestLevels(calls: readonly Call[], limit: Limit, clocks: Clocks): (call: Call) => number {
  const byBegin = calls.filter((call) => mayCount(call, limit));
  const byEnd = [...byBegin].sort((a, b) => latest(a, clocks) - latest(b, clocks));
  let [level, levelMs, ended, begun, hitsEnded, hitsBegun] = [limit.burst, Number.NaN, 0, 0, 0, 0];
  const flowTo = (ms: number): number =>
    Number.isNaN(levelMs) ? limit.burst : Math.min(limit.burst, level + perMs(limit) * (ms - levelMs));
  return (call) => {
    for (let one = byEnd[ended]; one && latest(one, clocks) < earliest(call, clocks); one = byEnd[++ended]) {
      level = Math.max(0, flowTo(latest(one, clocks)) - one.hits);
      levelMs = latest(one, clocks);
      hitsEnded += one.hits;
    }
    // Calls that began before the largest end so far: perhaps more than overlap with this one, never fewer.
    for (let one = byBegin[begun]; one && earliest(one, clocks) <= latest(call, clocks); one = byBegin[++begun])
      hitsBegun += one.hits;
    const own = mayCount(call, limit) ? call.hits : 0;
    return Math.max(0, flowTo(earliest(call, clocks)) - (hitsBegun - hitsEnded - own));
  };
}

/** The tokens before a call by the calls that certainly took theirs before it: the bound of the inflow, from any instant. */
function highestLevels(calls: readonly Call[], limit: Limit, clocks: Clocks): (call: Call) => number {
  const passed = calls.filter(hasPassed);
  const answered = new Sums(passed.map(({ end, hits }) => [end, hits]));
  let [next, begun, least] = [0, 0, Number.POSITIVE_INFINITY];
  return (call) => {
    for (let one = passed[next]; one && one.start < call.start; one = passed[++next]) {
      least = Math.min(least, begun - perMs(limit) * earliest(one, clocks));
      begun += one.hits;
    }
    const bound = limit.burst + perMs(limit) * latest(call, clocks) - answered.before(call.start) + least;
    return Math.min(limit.burst, bound);
  };
}
