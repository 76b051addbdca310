import { type Outcomes, offeredOf } from '../../operate/status/service-series.ts';

const DAY_MS = 86_400_000;
const MAX_INCIDENTS = 50;
/** An outage is over after this long without a request that it affected. */
const QUIET_MS = 15_000;
/** A store is slow if half of its calls take longer: three quarters of the 20 ms that Envoy waits by default. */
export const SLOW_STORE_MS = 15;
/** Deciders that end within this time are one incident. */
const PAUSE_MS = 60_000;
/** Above this part of the requests, those without a decision are no exceptions. */
export const MAX_UNDECIDED_PART = 0.01;

/** What is counted so far: requests by outcome, and those without a decision by reason. */
export interface Counted {
  readonly totals: Outcomes;
  readonly undecidedBy: Readonly<Record<string, number>>;
}

/** What one second adds. */
export interface Second extends Counted {
  readonly nowMs: number;
  readonly outcomes: Outcomes;
  /** The store does not answer, or a node of it is not called. */
  readonly isStoreAway: boolean;
  readonly lastSuccessAtMs?: number | undefined;
  readonly isStoreSlow: boolean;
  readonly restarts: number;
  readonly hasNewestRules: boolean;
}

/** Something that went wrong for a time. */
export interface Incident {
  readonly kind: 'outage' | 'process' | 'slow_store' | 'rules';
  readonly sinceMs: number;
  /** Absent: it goes on. */
  readonly untilMs?: number;
  /** Requests while it lasted, and those without a decision by reason. */
  readonly offered: number;
  readonly undecided: number;
  readonly degraded: number;
  readonly by: Readonly<Record<string, number>>;
  readonly wasStoreAway: boolean;
  /** How often it happened without a longer pause. */
  readonly times: number;
}

/** An incident, as a control process keeps it for its successor. */
export type KeptIncident = { -readonly [F in keyof Incident]: Incident[F] } & {
  lastMs: number;
  offeredSince: number;
  /** Of an outage: what was counted when it was last gathered. */
  counted?: Counted;
};

/** The incidents of the last day. */
export class Incidents {
  readonly #all: KeptIncident[];
  readonly #keep: (all: readonly KeptIncident[]) => void;
  #kept = '';
  #before: Second | undefined;
  #undecidedBy: Counted['undecidedBy'] = {};
  /** Calls of deciders that ended which are told of in an incident. */
  #lostTold: number | undefined;

  /**
   * @param known  those of control processes before this one
   * @param keep   called with all of them after each change
   */
  constructor(known: readonly KeptIncident[] = [], keep = (_: readonly KeptIncident[]): void => {}) {
    this.#all = known.map((one) => ({ ...one }));
    this.#keep = keep;
  }

  /** Adds to an outage that goes on what has been counted since the control process before this one gathered it. */
  begin(now: Counted, nowMs: number): void {
    this.#undecidedBy = now.undecidedBy;
    const outage = this.#all.findLast(({ kind, untilMs }) => kind === 'outage' && untilMs === undefined);
    if (!outage?.counted) return;
    const { totals, undecidedBy } = outage.counted;
    const missed = {
      passed: Math.max(now.totals.passed - totals.passed, 0),
      refused: Math.max(now.totals.refused - totals.refused, 0),
      degraded: Math.max(now.totals.degraded - totals.degraded, 0),
      undecided: Math.max(now.totals.undecided - totals.undecided, 0),
    };
    if (missed.degraded + missed.undecided > 0) outage.lastMs = nowMs;
    addRequests(outage, missed, addedReasons(undecidedBy, now.undecidedBy), nowMs);
  }

  /** To be called once a second. */
  gather(second: Second): void {
    const before = this.#before;
    this.#before = second;
    const { nowMs, outcomes, isStoreAway } = second;
    const backMs = (before?.nowMs ?? nowMs) - nowMs;
    if (backMs > 0) this.#setBack(backMs);
    const isReached = second.lastSuccessAtMs !== undefined; // else the service has just started
    const isHarmed = outcomes.undecided > MAX_UNDECIDED_PART * offeredOf(outcomes) || outcomes.degraded > 0;
    const outage = this.#follow('outage', (isStoreAway && isReached) || isHarmed, nowMs, QUIET_MS);
    if (outage) addSecond(outage, second, this.#undecidedBy);
    this.#undecidedBy = second.undecidedBy;
    this.#follow('slow_store', second.isStoreSlow, nowMs);
    this.#follow('rules', !second.hasNewestRules, nowMs);
    const ended = second.restarts - (before?.restarts ?? second.restarts);
    const { lost = 0 } = second.undecidedBy;
    if (ended > 0) {
      this.#noteEnded(ended, lost - (this.#lostTold ?? lost), nowMs);
      this.#lostTold = lost;
    }
    this.#lostTold ??= lost;
    const dropped = this.#all.length - MAX_INCIDENTS;
    if (dropped > 0) this.#all.splice(0, dropped);
    while (this.#all[0]?.untilMs !== undefined && nowMs - this.#all[0].untilMs > DAY_MS) this.#all.shift();
    const all = JSON.stringify(this.#all);
    if (all === this.#kept) return;
    this.#kept = all;
    this.#keep(this.#all);
  }

  /** The newest first. */
  list(): readonly Incident[] {
    return this.#all.toReversed();
  }

  /** The clock was set back: incidents began as long ago as before. */
  #setBack(ms: number): void {
    for (const one of this.#all) {
      one.sinceMs -= ms;
      one.lastMs -= ms;
      if (one.untilMs !== undefined) one.untilMs -= ms;
    }
  }

  #noteEnded(processes: number, lost: number, nowMs: number): void {
    const last = this.#all.findLast(({ kind }) => kind === 'process');
    const isSame = last !== undefined && nowMs - last.lastMs < PAUSE_MS;
    const one = isSame ? last : this.#begin('process', nowMs);
    one.times = (isSame ? one.times : 0) + processes;
    one.undecided += lost;
    one.lastMs = nowMs;
    one.untilMs = nowMs;
  }

  #begin(kind: Incident['kind'], nowMs: number): KeptIncident {
    const none = { offered: 0, undecided: 0, degraded: 0, by: {}, wasStoreAway: false, times: 1, offeredSince: 0 };
    const fresh: KeptIncident = { kind, sinceMs: nowMs, lastMs: nowMs, ...none };
    this.#all.push(fresh);
    return fresh;
  }

  /** The incident of this kind that goes on, if any. */
  #follow(kind: Incident['kind'], isOn: boolean, nowMs: number, quietMs = 0): KeptIncident | undefined {
    const known = this.#all.findLast((one) => one.kind === kind && one.untilMs === undefined);
    if (isOn) {
      const open = known ?? this.#begin(kind, nowMs);
      open.lastMs = nowMs;
      return open;
    }
    if (known && nowMs - known.lastMs >= quietMs) known.untilMs = known.lastMs;
    return known;
  }
}

function addSecond(outage: KeptIncident, second: Second, before: Counted['undecidedBy']): void {
  const { nowMs, outcomes, totals, undecidedBy, isStoreAway, lastSuccessAtMs } = second;
  if (isStoreAway && !outage.wasStoreAway) {
    outage.wasStoreAway = true;
    outage.sinceMs = Math.min(outage.sinceMs, lastSuccessAtMs ?? outage.sinceMs);
  }
  outage.counted = { totals, undecidedBy };
  addRequests(outage, outcomes, addedReasons(before, undecidedBy), nowMs);
}

/** Requests after the last one that was affected count only if another one follows. */
function addRequests(outage: KeptIncident, outcomes: Outcomes, by: Incident['by'], nowMs: number): void {
  outage.offeredSince += offeredOf(outcomes);
  if (outage.lastMs === nowMs) {
    outage.offered += outage.offeredSince;
    outage.offeredSince = 0;
  }
  outage.undecided += outcomes.undecided;
  outage.degraded += outcomes.degraded;
  outage.by = sumReasons(outage.by, by, 1);
}

/** A process that has ended took what it had counted with it. */
const addedReasons = (before: Incident['by'], now: Incident['by']): Incident['by'] => sumReasons(now, before, -1);

const sumReasons = (one: Incident['by'], other: Incident['by'], sign: 1 | -1): Incident['by'] => {
  const names = Object.keys({ ...one, ...other });
  const sums = names.map((name) => [name, (one[name] ?? 0) + sign * (other[name] ?? 0)] as const);
  return Object.fromEntries(sums.filter(([, count]) => count > 0));
};
