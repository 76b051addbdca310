import { CLOCK_SLACK_MS } from './admission.ts';
import { type CallRecord, countedFromMs, type FaultRecord, overlaps } from './log.ts';
import type { ChaosRule } from './rules.ts';
import { isUndone, takenAtLatest } from './slots.ts';
import { isTrouble } from './spells.ts';

/** Charges and holds exceeded the limit, or a request was refused although they cannot have reached it. */
interface ReservationFinding {
  readonly kind: 'too many' | 'not free';
  readonly atMs: number;
  readonly hits: number;
  readonly most: number;
  readonly calls: readonly CallRecord[];
}

/** The calls of one request: a reservation, and any number of commits. */
interface Reservation {
  readonly reserve: CallRecord;
  readonly commits: readonly CallRecord[];
}

/** Hits charged at one moment. */
interface Charged {
  readonly hits: number;
  readonly atMs: number;
}

const MAX_FINDINGS = 3;
/** Lower bounds of the charged hits ignore older charges. */
const REACH_MS = 10_000;
/** Fractions of a hit may cause a refusal. */
const ROUNDING = 1;

/**
 * Finds requests that were admitted although charges and holds left no room; each possible loss of counters permits one
 * further limit. Also finds requests that were refused although there was room, if each commit is charged once and each
 * reservation ends after its ttl: then it is free, or charged until a late commit corrects it. The counter is a bucket
 * that drains; commits may charge beyond the limit.
 *
 * @param calls  of one key, in any order
 */
export function findReservationFindings(
  rule: ChaosRule,
  calls: readonly CallRecord[],
  faults: readonly FaultRecord[],
): readonly ReservationFinding[] {
  const commits = new Map<string | undefined, CallRecord[]>();
  for (const call of calls) if (call.isCommit) commits.set(call.id, [...(commits.get(call.id) ?? []), call]);
  const reservations = calls
    .filter(({ isCommit }) => !isCommit)
    .map((reserve): Reservation => ({ reserve, commits: commits.get(reserve.id) ?? [] }));
  return [...tooMany(rule, reservations, faults), ...notFree(rule, reservations, faults)];
}

const hasEffect =
  (effect: FaultRecord['effects'][number]) =>
  ({ effects }: FaultRecord): boolean =>
    effects.includes(effect);

function tooMany(rule: ChaosRule, all: readonly Reservation[], faults: readonly FaultRecord[]): ReservationFinding[] {
  const { limit, burst = limit, windowMs, ttlMs = 0, isFreed } = rule;
  const [frozen, lost] = [faults.filter(hasEffect('clock_frozen')), faults.filter(hasEffect('data_lost'))];
  const earliest = (call: CallRecord): number => countedFromMs(call, frozen);
  const admitted = all.filter(({ reserve }) => reserve.outcome === 'OK');
  const lapsesMs = (reserve: CallRecord): number => earliest(reserve) + ttlMs;
  const charges = admitted
    .filter(({ commits }) => commits.some(isDone))
    .map(({ reserve, commits }) => ({
      hits: commits[0]?.hits ?? 0,
      // a late commit may leave what the lapse charged
      atMs: Math.min(...commits.map(earliest), isFreed ? Number.POSITIVE_INFINITY : lapsesMs(reserve)),
      doneMs: Math.min(...commits.filter(isDone).map(({ answeredMs }) => answeredMs)),
    }));
  const findings: ReservationFinding[] = [];
  for (const { reserve: call } of admitted) {
    const { sentMs, answeredMs } = call;
    const open = admitted.filter(
      ({ reserve, commits }) =>
        reserve !== call && reserve.answeredMs <= sentMs && commits.every((commit) => commit.sentMs > answeredMs),
    );
    const isHeld = ({ reserve }: Reservation): boolean => lapsesMs(reserve) - CLOCK_SLACK_MS > answeredMs;
    const held = open.filter(isHeld);
    const isReached = (atMs: number): boolean => atMs > sentMs - REACH_MS;
    const lapsed = isFreed ? [] : open.filter((one) => !isHeld(one) && isReached(lapsesMs(one.reserve)));
    const before = newestFirst([
      ...charges.filter(({ atMs, doneMs }) => doneMs <= sentMs && isReached(atMs)),
      ...lapsed.map(({ reserve }) => ({ hits: reserve.hits, atMs: lapsesMs(reserve) })),
    ]);
    const level = bucketLevel(before, answeredMs + CLOCK_SLACK_MS, limit / windowMs);
    const hits = level + sumHits(held) + call.hits;
    const fromMs = Math.min(
      sentMs - ttlMs,
      ...before.map(({ atMs }) => atMs),
      ...lapsed.map(({ reserve }) => reserve.sentMs),
    );
    const most = burst * (1 + lost.filter((one) => overlaps(one, fromMs, answeredMs)).length);
    if (hits <= most) continue;
    const evidence = [call, ...[...held, ...lapsed].map(({ reserve }) => reserve)];
    findings.push({ kind: 'too many', atMs: sentMs, hits, most, calls: evidence });
  }
  return findings.slice(0, MAX_FINDINGS);
}

function notFree(rule: ChaosRule, all: readonly Reservation[], faults: readonly FaultRecord[]): ReservationFinding[] {
  const { limit, burst = limit, windowMs, ttlMs = 0, isFreed } = rule;
  const frozen = faults.filter(hasEffect('clock_frozen'));
  const possible = all.filter(({ reserve }) => reserve.outcome === 'OK' || isTrouble(reserve));
  // a failed commit is retried for a ttl
  const latest = (commit: CallRecord): number => takenAtLatest(commit, faults) + (isTrouble(commit) ? ttlMs : 0);
  const charges = possible
    .filter(({ commits }) => commits.length > 0)
    .map(({ commits }) => ({
      hits: commits[0]?.hits ?? 0,
      sentMs: Math.min(...commits.map(({ sentMs }) => sentMs)),
      atMs: Math.max(...commits.map(latest)),
    }));
  const findings: ReservationFinding[] = [];
  for (const { reserve: call } of all) {
    const { sentMs, answeredMs } = call;
    if (call.outcome !== 'OVER_LIMIT' || frozen.some((one) => overlaps(one, sentMs, answeredMs))) continue;
    const lapsesMs = (reserve: CallRecord): number => takenAtLatest(reserve, faults) + ttlMs + CLOCK_SLACK_MS;
    const open = possible.filter(({ reserve, commits }) => {
      // a late commit corrects only what still counts
      const byMs = isFreed ? sentMs : Math.min(sentMs, reserve.sentMs + ttlMs - CLOCK_SLACK_MS);
      const countsUntilMs = isFreed ? lapsesMs(reserve) : sentMs;
      const isEnded = commits.some(
        (one) => isDone(one) && one.answeredMs <= byMs && !isUndone(one, countsUntilMs, faults),
      );
      return reserve !== call && reserve.sentMs <= answeredMs && !isEnded;
    });
    const held = open.filter(({ reserve }) => lapsesMs(reserve) >= sentMs);
    const lapsed = isFreed ? [] : open.filter(({ reserve }) => lapsesMs(reserve) < sentMs);
    const before = newestFirst([
      ...charges
        .filter((one) => one.sentMs <= answeredMs)
        .map(({ hits, atMs }) => ({ hits, atMs: Math.min(atMs, answeredMs) })),
      ...lapsed.map(({ reserve }) => ({ hits: reserve.hits, atMs: lapsesMs(reserve) })),
    ]);
    const hits = bucketLevel(before, sentMs - CLOCK_SLACK_MS, limit / windowMs) + sumHits(held) + call.hits;
    if (hits > burst - ROUNDING) continue;
    const evidence = [call, ...[...held, ...lapsed].map(({ reserve }) => reserve)];
    findings.push({ kind: 'not free', atMs: sentMs, hits, most: burst, calls: evidence });
  }
  return findings.slice(0, MAX_FINDINGS);
}

const isDone = ({ outcome }: CallRecord): boolean => outcome === 'OK';

const sumHits = (held: readonly Reservation[]): number => held.reduce((sum, { reserve }) => sum + reserve.hits, 0);

const newestFirst = (charges: readonly Charged[]): readonly Charged[] =>
  charges.toSorted((one, other) => other.atMs - one.atMs);

/**
 * The level of a bucket that these charges fill and that drains at this rate.
 *
 * @param charges  newest first
 */
function bucketLevel(charges: readonly Charged[], nowMs: number, perMs: number): number {
  let [sum, level] = [0, 0];
  for (const { hits, atMs } of charges) {
    sum += hits;
    level = Math.max(level, sum - perMs * Math.max(nowMs - atMs, 0));
  }
  return level;
}
