import { CLOCK_SLACK_MS } from './admission.ts';
import type { CallRecord, FaultRecord } from './log.ts';
import type { ChaosRule } from './rules.ts';
import { isTrouble } from './spells.ts';

/** Too many slots were held at a time, or a request was refused although a slot was free. */
interface SlotFinding {
  readonly kind: 'too many' | 'not back';
  readonly atMs: number;
  readonly held: number;
  readonly most: number;
  readonly calls: readonly CallRecord[];
}

/** A slot, and the time during which it was held. */
interface HeldSlot {
  readonly acquire: CallRecord;
  readonly fromMs: number;
  readonly toMs: number;
}

/** How long after a fault a call that failed because of it may still be counted. */
const LATE_MS = 5_000;

/**
 * Finds times at which more slots were held than the limit permits; each possible loss of counters within the ttl
 * before permits one further limit. Also finds requests that were refused although a slot must have been free.
 *
 * @param calls  of one key, in any order
 */
export function findSlotFindings(
  rule: ChaosRule,
  calls: readonly CallRecord[],
  faults: readonly FaultRecord[],
): readonly SlotFinding[] {
  const releases = new Map(calls.flatMap((call) => (call.isRelease ? [[call.id, call] as const] : [])));
  const acquires = calls.filter(({ isRelease }) => !isRelease);
  return [...tooMany(rule, acquires, releases, faults), ...notBack(rule, acquires, releases, faults)];
}

type Releases = ReadonlyMap<string | undefined, CallRecord>;

function tooMany(
  { limit, windowMs: ttlMs }: ChaosRule,
  acquires: readonly CallRecord[],
  releases: Releases,
  faults: readonly FaultRecord[],
): readonly SlotFinding[] {
  const frozen = faults.filter(({ effects }) => effects.includes('clock_frozen'));
  const lost = faults.filter(({ effects }) => effects.includes('data_lost'));
  const held = acquires.filter(({ outcome, degraded }) => outcome === 'OK' && degraded === undefined);
  const certain = held
    .map((acquire) => certainly(acquire, releases.get(acquire.id), frozen, ttlMs))
    .filter(({ fromMs, toMs }) => fromMs < toMs);
  const findings: SlotFinding[] = [];
  for (const { fromMs } of certain) {
    const at = certain.filter((slot) => slot.fromMs <= fromMs && slot.toMs > fromMs);
    const losses = lost.filter((fault) => fault.begunMs <= fromMs && fault.endedMs >= fromMs - ttlMs).length;
    const most = limit * (1 + losses);
    if (at.length <= most) continue;
    findings.push({ kind: 'too many', atMs: fromMs, held: at.length, most, calls: at.map(({ acquire }) => acquire) });
  }
  return findings.slice(0, MAX_FINDINGS);
}

const MAX_FINDINGS = 3;

/** The time during which a slot was certainly held, from the answer until the release was sent or its ttl was over. */
function certainly(
  acquire: CallRecord,
  release: CallRecord | undefined,
  frozen: readonly FaultRecord[],
  ttlMs: number,
): HeldSlot {
  const overlapping = frozen.filter((fault) => fault.begunMs <= acquire.answeredMs && fault.endedMs >= acquire.sentMs);
  const takenMs = Math.min(acquire.sentMs, ...overlapping.map(({ begunMs }) => begunMs));
  const expiresMs = takenMs + ttlMs - CLOCK_SLACK_MS;
  return {
    acquire,
    fromMs: acquire.answeredMs,
    toMs: Math.min(expiresMs, release?.sentMs ?? Number.POSITIVE_INFINITY),
  };
}

function notBack(
  { limit, windowMs: ttlMs }: ChaosRule,
  acquires: readonly CallRecord[],
  releases: Releases,
  faults: readonly FaultRecord[],
): readonly SlotFinding[] {
  const possible = acquires
    .filter((acquire) => acquire.outcome === 'OK' || isTrouble(acquire))
    .map((acquire) => possibly(acquire, releases.get(acquire.id), faults, ttlMs));
  const refused = acquires.filter(({ outcome, degraded }) => outcome === 'OVER_LIMIT' && degraded === undefined);
  const findings: SlotFinding[] = [];
  for (const call of refused) {
    const at = possible.filter((slot) => slot.fromMs <= call.answeredMs && slot.toMs >= call.sentMs);
    if (at.length >= limit) continue;
    const evidence = [call, ...at.map(({ acquire }) => acquire)];
    findings.push({ kind: 'not back', atMs: call.sentMs, held: at.length, most: limit, calls: evidence });
  }
  return findings.slice(0, MAX_FINDINGS);
}

/** The time during which a slot may have been held, until its release was answered or else its ttl was over. */
function possibly(
  acquire: CallRecord,
  release: CallRecord | undefined,
  faults: readonly FaultRecord[],
  ttlMs: number,
): HeldSlot {
  const expiresMs = takenAtLatest(acquire, faults) + ttlMs + CLOCK_SLACK_MS;
  const isReleased = acquire.outcome === 'OK' && release?.outcome === 'OK' && !isUndone(release, expiresMs, faults);
  return { acquire, fromMs: acquire.sentMs, toMs: isReleased ? Math.min(release.answeredMs, expiresMs) : expiresMs };
}

/** The latest time at which a call was counted: if the counters did not answer, it may still wait for them. */
export function takenAtLatest(acquire: CallRecord, faults: readonly FaultRecord[]): number {
  if (!isTrouble(acquire)) return acquire.answeredMs;
  const ends = faults
    .filter((fault) => fault.begunMs <= acquire.answeredMs && fault.endedMs >= acquire.sentMs)
    .map(({ endedMs }) => endedMs);
  return Math.max(acquire.answeredMs, ...ends) + LATE_MS;
}

/** Whether a release or commit may be lost because a replica without it took over. */
export const isUndone = (release: CallRecord, untilMs: number, faults: readonly FaultRecord[]): boolean =>
  faults.some(
    ({ begunMs, endedMs, effects }) => effects.includes('data_lost') && begunMs <= untilMs && endedMs >= release.sentMs,
  );
