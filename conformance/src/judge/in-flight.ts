import { type Call, type Clocks, type Finding, hasPassed, type Judge } from './call.ts';
import type { Limit } from './limits.ts';
import { Sums } from './sums.ts';

/** A request that took a slot, or may have. */
interface Hold {
  readonly acquired: Call;
  /** It held the slot for certain from the answer to the release's begin or its ttl; undefined if it may not have. */
  readonly certain: readonly [fromMs: number, toMs: number] | undefined;
  /** It held no slot outside of this. */
  readonly possible: readonly [fromMs: number, toMs: number];
}

/** Never more holders at once than the limit; and a refusal needs as many that may hold. */
export const judgeInFlight: Judge = (calls, limit, clocks) => {
  const holds = holdsOf(calls, limit, clocks);
  return [...judgeCrowd(holds, limit), ...judgeRefusals(calls, holds, limit)];
};

function holdsOf(calls: readonly Call[], limit: Limit, clocks: Clocks): readonly Hold[] {
  const releases = new Map<string, Call[]>();
  for (const call of calls) {
    if (call.hits >= 0) continue;
    const own = releases.get(call.holder);
    if (own) own.push(call);
    else releases.set(call.holder, [call]);
  }
  return calls
    .filter((call) => call.hits > 0 && call.outcome !== 'refused')
    .map((call) => holdOf(call, releases.get(call.holder) ?? [], limit, clocks));
}

/** A release that may have come before the request took its slot frees nothing for certain. */
function holdOf(acquired: Call, releases: readonly Call[], limit: Limit, { skewMs, lateMs }: Clocks): Hold {
  const isUnknown = acquired.outcome === 'unknown';
  const lastMs = acquired.end + (isUnknown ? lateMs : 0);
  const expiresFirst = acquired.start - skewMs + limit.ttlMs;
  const expiresLast = lastMs + skewMs + limit.ttlMs;
  const maybeFreed = releases.map((release) => release.start);
  const surelyFreed = releases.filter((one) => hasPassed(one) && one.start >= lastMs).map(({ end }) => end);
  return {
    acquired,
    certain: isUnknown ? undefined : [acquired.end, Math.min(expiresFirst, ...maybeFreed)],
    possible: [acquired.start, Math.min(expiresLast, ...surelyFreed)],
  };
}

function judgeCrowd(holds: readonly Hold[], limit: Limit): readonly Finding[] {
  const events = holds.flatMap((hold) =>
    hold.certain && hold.certain[0] < hold.certain[1]
      ? [
          { atMs: hold.certain[0], hold, isBegin: true },
          { atMs: hold.certain[1], hold, isBegin: false },
        ]
      : [],
  );
  events.sort((a, b) => a.atMs - b.atMs || Number(a.isBegin) - Number(b.isBegin));
  const present = new Set<Hold>();
  const most = limit.limit + limit.slack;
  for (const { hold, isBegin } of events) {
    if (!isBegin) present.delete(hold);
    else if (present.add(hold).size > most)
      return [
        {
          why: `at most ${most} requests could be in flight; ${present.size} were`,
          calls: [...present].map(({ acquired }) => acquired),
        },
      ];
  }
  return [];
}

function judgeRefusals(calls: readonly Call[], holds: readonly Hold[], limit: Limit): readonly Finding[] {
  const begins = new Sums(holds.map(({ possible }) => [possible[0], 1]));
  const ends = new Sums(holds.map(({ possible }) => [possible[1], 1]));
  for (const call of calls.filter(({ outcome, hits }) => outcome === 'refused' && hits > 0)) {
    // Those that may hold a slot at some time of this call have begun by its end, and not ended before its start.
    const most = begins.upTo(call.end) - ends.before(call.start);
    if (most + 1 <= limit.limit - limit.early)
      return [{ why: `refused although at most ${most} of ${limit.limit} were in flight`, calls: [call] }];
  }
  return [];
}
