import type { Charge, HeldAt, Spend, State, Step } from '../algorithms/limit.ts';

/** What a request charges, for every store and for each counter of a batch in Redis, which runs this file as Lua. */

/** The kinds of operations: see `Operation`. */
export const kinds = ['spend', 'give_back', 'peek', 'charge', 'refund', 'forget'] as const;
type Kind = (typeof kinds)[number];

/** A counter, as the operations of a request use it. */
export interface CounterUse {
  /** The number of operations that use it, once they are counted. */
  uses: number;
  /** The hits that the operations so far ask for, which must all fit for the same request to pass. */
  asked: number;
  /** It has another program's value, on which nothing can be counted. */
  isUnusable: boolean;
}

/** An operation of a request on a counter. */
export interface Hit {
  readonly kind: Kind;
  /** Negative if they are given back. */
  readonly hits: number;
  /** Its refusal refuses the request. */
  readonly blocks: boolean;
  /** It is counted even if the request is refused. */
  readonly isAlone: boolean;
  /** Its own refusal changes its counter. */
  readonly marksRefusal: boolean;
  /** The hits are usage. */
  readonly isMetered: boolean;
  /** The limit is a reservation, and the hits are those that were used of it. */
  readonly reserves: boolean;
  readonly commits: boolean;
  /** Where the counter holds hits, if metered hits are given back. */
  readonly held: Required<HeldAt> | undefined;
  readonly counter: CounterUse;
}

/** The counters of a request. A step changes a counter only if `keep` follows. */
export interface HitStore<H extends Hit> {
  step(this: void, hit: H, hits: number, charge: Charge): Step;
  refund(this: void, hit: H): Step;
  /** Resets the counter. Returns a step on a new one. */
  forget(this: void, hit: H): Step;
  isNew(this: void, hit: H): boolean;
  keep(this: void, hit: H, state: State, ttlMs: number): void;
  /** Remembers the counter as it is, if it was not yet. */
  save(this: void, hit: H): void;
  /** Sets the state of a counter that was saved. */
  assume(this: void, hit: H, state: State): void;
  /** Restores all counters that were saved. */
  restore(this: void): void;
  /** A refused request leaves the counter unchanged. */
  spared(this: void, hit: H): void;
  /** Adds hits to the usage of the counter. */
  meter(this: void, hit: H, hits: number): void;
  answer(this: void, hit: H, accepted: boolean, charged: Charge, report: State): void;
}

/** Runs the operations of a request: see `Spend`. */
export function runRequest<H extends Hit>(store: HitStore<H>, hits: readonly H[], spend: Spend): void {
  const accepted: boolean[] = [];
  if (spend !== 'each' && tryAll(store, hits, accepted)) return spare(store, hits, accepted, spend === 'spare_others');
  const count = hits.length;
  for (let at = 0; at < count; at++) runOne(store, hits[at] as H);
}

/** Runs an operation that is independent of others, or whose request passes. */
export function runOne<H extends Hit>(store: HitStore<H>, hit: H): void {
  const kind = hit.kind;
  const isKept = kind === 'refund' ? !store.isNew(hit) : kind !== 'peek' && kind !== 'forget';
  const held = heldIn(store, hit);
  const next: Step = runKind(store, hit);
  const report = next.report ?? next.state;
  if (isKept) store.keep(hit, next.state, next.ttlMs);
  if (hit.isMetered) store.meter(hit, usageOf(store, hit, next.accepted, report, held));
  store.answer(hit, next.accepted, kind === 'charge' ? 'regardless' : isKept || kind === 'refund', report);
}

function runKind<H extends Hit>(store: HitStore<H>, hit: H): Step {
  const kind = hit.kind;
  if (kind === 'refund') return store.refund(hit);
  if (kind === 'forget') return store.forget(hit);
  if (kind === 'peek') return store.step(hit, hit.hits, false);
  return store.step(hit, hit.hits, kind === 'charge' ? 'regardless' : true);
}

/**
 * Sets which hits would be accepted if all were spent in this order. Only counters that are used several times are
 * charged for this, and restored. Returns whether the request would be refused.
 */
function tryAll<H extends Hit>(store: HitStore<H>, hits: readonly H[], accepted: boolean[]): boolean {
  const count = hits.length;
  for (let at = 0; at < count; at++) {
    const counter = (hits[at] as H).counter;
    counter.uses = 0;
  }
  for (let at = 0; at < count; at++) {
    const counter = (hits[at] as H).counter;
    counter.uses = counter.uses + 1;
  }
  let isRefused = false;
  for (let at = 0; at < count; at++) {
    const hit = hits[at] as H;
    const isRepeated = hit.counter.uses > 1;
    if (isRepeated) store.save(hit);
    const next: Step = store.step(hit, hit.hits, isRepeated && hit.kind !== 'peek');
    if (isRepeated) store.assume(hit, next.state);
    accepted[at] = next.accepted;
    if (hit.counter.isUnusable || (hit.blocks && !next.accepted)) isRefused = true;
  }
  store.restore();
  return isRefused;
}

/**
 * Runs a refused request: at most the refusals themselves are counted, and operations that stand alone. Others are
 * decided for all hits of the request on the counter so far, since these must fit for the same request to pass.
 */
function spare<H extends Hit>(
  store: HitStore<H>,
  hits: readonly H[],
  accepted: readonly boolean[],
  mayCharge: boolean,
): void {
  const count = hits.length;
  for (let at = 0; at < count; at++) {
    const counter = (hits[at] as H).counter;
    counter.asked = 0;
  }
  for (let at = 0; at < count; at++) {
    const hit = hits[at] as H;
    const counter = hit.counter;
    const isAccepted = accepted[at] === true;
    if (hit.kind !== 'peek') counter.asked = counter.asked + hit.hits;
    if (hit.isAlone || isRefusedAgain(store, hit, isAccepted, mayCharge)) chargeRefused(store, hit, isAccepted);
    else {
      const isForItself = hit.kind === 'peek' && hit.hits > 0;
      const next: Step = store.step(hit, isForItself ? hit.hits : counter.asked, false);
      store.spared(hit);
      store.answer(hit, isForItself ? next.accepted : isAccepted, false, next.report ?? next.state);
    }
  }
}

/** Whether the refusal of these hits is counted. */
function isRefusedAgain<H extends Hit>(store: HitStore<H>, hit: H, isAccepted: boolean, mayCharge: boolean): boolean {
  if (isAccepted || hit.kind === 'peek' || !(mayCharge || hit.marksRefusal)) return false;
  const next: Step = store.step(hit, hit.hits, false);
  return !next.accepted;
}

function chargeRefused<H extends Hit>(store: HitStore<H>, hit: H, isAccepted: boolean): void {
  const held = heldIn(store, hit);
  const next: Step = store.step(hit, hit.hits, hit.kind !== 'peek');
  const report = next.report ?? next.state;
  store.keep(hit, next.state, next.ttlMs);
  if (hit.isMetered) store.meter(hit, usageOf(store, hit, next.accepted, report, held));
  store.answer(hit, isAccepted, true, report);
}

/** The hits that the counter holds or lacks, in its unit; 0 if none are given back, or they are no usage. */
function heldIn<H extends Hit>(store: HitStore<H>, hit: H): number {
  const held = hit.held;
  if (held === undefined) return 0;
  const next: Step = store.step(hit, 0, false);
  const report = next.report ?? next.state;
  const last = held.last;
  let sum = 0;
  for (let at = held.first; at <= last; at++) sum = sum + (report[at] ?? 0);
  return Math.min(sum, held.most);
}

/** The hits that a charged operation adds to the usage of its counter. @param held  what the counter held before */
function usageOf<H extends Hit>(store: HitStore<H>, hit: H, accepted: boolean, report: State, held: number): number {
  const kind = hit.kind;
  if (kind === 'peek' || kind === 'forget') return 0;
  if (kind === 'refund') return hit.reserves && !hit.commits ? 0 : -hit.hits;
  const used = usedHits(hit.reserves, hit.hits, accepted || kind === 'charge', report);
  if (hit.held === undefined) return used;
  return used - Math.ceil(Math.abs(held - heldIn(store, hit)) / hit.held.unit);
}

/** The place in the report of a reservation of the usage that a step adds. */
const USAGE = 11;

/** The hits that a step of a spend adds to the usage of its counter. */
export function usedHits(reserves: boolean, hits: number, accepted: boolean, report: State): number {
  if (reserves) return report[USAGE] ?? 0;
  return accepted && hits > 0 ? hits : 0;
}
