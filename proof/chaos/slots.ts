import { CLOCK_SLACK_MS } from './admission.ts';
import { type CallRecord, countedFromMs, type FaultRecord, overlaps } from './log.ts';
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
  const slots = acquires.map((acquire) => ({ acquire, release: releases.get(acquire.id) }));
  return [...tooMany(rule, slots, faults), ...notBack(rule, slots, faults)];
}

/** The calls of one slot. */
interface SlotCalls {
  readonly acquire: CallRecord;
  readonly release: CallRecord | undefined;
}

function tooMany(
  { limit, windowMs: ttlMs }: ChaosRule,
  slots: readonly SlotCalls[],
  faults: readonly FaultRecord[],
): readonly SlotFinding[] {
  const frozen = faults.filter(({ effects }) => effects.includes('clock_frozen'));
  const lost = faults.filter(({ effects }) => effects.includes('data_lost'));
  const held = slots.filter(({ acquire }) => acquire.outcome === 'OK' && acquire.degraded === undefined);
  const certain = held.map((slot) => certainly(slot, frozen, ttlMs)).filter(({ fromMs, toMs }) => fromMs < toMs);
  const findings: SlotFinding[] = [];
  for (const { fromMs } of certain) {
    const at = certain.filter((slot) => slot.fromMs <= fromMs && slot.toMs > fromMs);
    const losses = lost.filter((fault) => overlaps(fault, fromMs - ttlMs, fromMs)).length;
    const most = limit * (1 + losses);
    if (at.length <= most) continue;
    findings.push({ kind: 'too many', atMs: fromMs, held: at.length, most, calls: at.map(({ acquire }) => acquire) });
  }
  return findings.slice(0, MAX_FINDINGS);
}

const MAX_FINDINGS = 3;

/** The time during which a slot was certainly held, from the answer until the release was sent or its ttl was over. */
function certainly({ acquire, release }: SlotCalls, frozen: readonly FaultRecord[], ttlMs: number): HeldSlot {
  const expiresMs = countedFromMs(acquire, frozen) + ttlMs - CLOCK_SLACK_MS;
  return {
    acquire,
    fromMs: acquire.answeredMs,
    toMs: Math.min(expiresMs, release?.sentMs ?? Number.POSITIVE_INFINITY),
  };
}

function notBack(
  { limit, windowMs: ttlMs }: ChaosRule,
  slots: readonly SlotCalls[],
  faults: readonly FaultRecord[],
): readonly SlotFinding[] {
  const possible = slots
    .filter(({ acquire }) => acquire.outcome === 'OK' || isTrouble(acquire))
    .map((slot) => possibly(slot, faults, ttlMs));
  const refused = slots.flatMap(({ acquire }) =>
    acquire.outcome === 'OVER_LIMIT' && acquire.degraded === undefined ? [acquire] : [],
  );
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
function possibly({ acquire, release }: SlotCalls, faults: readonly FaultRecord[], ttlMs: number): HeldSlot {
  const expiresMs = takenAtLatest(acquire, faults) + ttlMs + CLOCK_SLACK_MS;
  const isReleased = acquire.outcome === 'OK' && release?.outcome === 'OK' && !isUndone(release, expiresMs, faults);
  return { acquire, fromMs: acquire.sentMs, toMs: isReleased ? Math.min(release.answeredMs, expiresMs) : expiresMs };
}

/** The latest time at which a call was counted; it may still wait for counters that did not answer. */
export function takenAtLatest(acquire: CallRecord, faults: readonly FaultRecord[]): number {
  if (!isTrouble(acquire)) return acquire.answeredMs;
  const ends = faults
    .filter((fault) => overlaps(fault, acquire.sentMs, acquire.answeredMs))
    .map(({ endedMs }) => endedMs);
  return Math.max(acquire.answeredMs, ...ends) + LATE_MS;
}

/** Whether a release or commit may be lost because a replica without it took over. */
export const isUndone = (release: CallRecord, untilMs: number, faults: readonly FaultRecord[]): boolean =>
  faults.some((fault) => fault.effects.includes('data_lost') && overlaps(fault, release.sentMs, untilMs));
