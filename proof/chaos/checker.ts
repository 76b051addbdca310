import { type Admitted, findOverruns, type Losses, type Overrun } from './admission.ts';
import {
  type CallRecord,
  type CountRecord,
  countedFromMs,
  type FaultRecord,
  overlaps,
  type RunLog,
  type ScrapeRecord,
} from './log.ts';
import { findReservationFindings } from './reservations.ts';
import { type ChaosRule, hasIds } from './rules.ts';
import type { InstanceFaultKind } from './schedule.ts';
import { findSlotFindings } from './slots.ts';
import { findSpells, isTrouble } from './spells.ts';

/** A violated invariant, with the log lines that show it. */
export interface Violation {
  readonly invariant: Invariant;
  readonly what: string;
  readonly evidence: readonly Evidence[];
}

/** A line of a log. */
export type Evidence = CallRecord | FaultRecord | ScrapeRecord | CountRecord;

export type Invariant =
  | 'answered in time'
  | 'within its limit'
  | 'within its limit, with a failing-open caller'
  | 'counted once'
  | 'counters never decrease'
  | 'every slot comes back'
  | 'charged once, and free after the ttl'
  | 'as its policy says'
  | 'decided after a stop'
  | 'back to normal'
  | 'no instance ends by itself'
  | 'every limit was reached';

const FREEZE: InstanceFaultKind = 'instance frozen';
/** How long after an instance is back clients' channels may still refuse calls to it. */
const RECONNECT_MS = 1_000;

/** Invariants of a machine with free processors; a slow one may violate them although the service is right. */
export const timedInvariants: ReadonlySet<Invariant> = new Set([
  'answered in time',
  'every limit was reached',
  'back to normal',
  'decided after a stop',
]);

/** Finds the violated invariants of a run, from its logs alone. */
export function check(log: RunLog): readonly Violation[] {
  return [
    ...endedByThemselves(log),
    ...answeredLate(log),
    ...decreased(log),
    ...log.plan.rules.flatMap((rule) => {
      const calls = log.calls.filter(({ key }) => key === rule.key);
      return [
        ...overLimit(rule, calls, log),
        ...overFailingOpen(rule, calls, log),
        ...countedTwice(rule, calls, log),
        ...(rule.algorithm === 'in_flight' ? slotViolations(rule, calls, log) : []),
        ...(rule.algorithm === 'reserve' ? reservationViolations(rule, calls, log) : []),
        ...againstPolicy(rule, calls, log),
        ...undecidedAfterStop(rule, calls, log),
        ...neverReached(rule, calls),
      ];
    }),
    ...notNormal(log),
  ];
}

function endedByThemselves({ faults }: RunLog): Violation[] {
  const unplanned = faults.filter(({ effects }) => effects.includes('unplanned'));
  if (unplanned.length === 0) return [];
  const what = `${unplanned.length} instances ended by themselves`;
  return [{ invariant: 'no instance ends by itself', what, evidence: unplanned }];
}

function answeredLate({ plan: { answerWithinMs }, calls, faults }: RunLog): Violation[] {
  const late = calls.filter(
    (call) => call.answeredMs - call.sentMs > answerWithinMs && !wasInstanceHurt(call, faults, 0),
  );
  if (late.length === 0) return [];
  const what = `${late.length} calls took longer than ${answerWithinMs} ms while their instance was up`;
  return [{ invariant: 'answered in time', what, evidence: late }];
}

/** Whether an instance was down, frozen, starting or stopping during a call, or up to `afterMs` before. */
const wasInstanceHurt = (call: CallRecord, faults: readonly FaultRecord[], afterMs: number): boolean =>
  faults.some(
    ({ on, begunMs, endedMs }) =>
      on === call.instance && begunMs <= call.answeredMs && endedMs + afterMs >= call.sentMs,
  );

/** Checks the admissions of the counters, and those of each instance while it could not reach the counters. */
function overLimit(rule: ChaosRule, calls: readonly CallRecord[], { plan, faults }: RunLog): Violation[] {
  const passed = calls.filter(({ outcome }) => outcome === 'OK');
  const counted = passed.filter(({ degraded }) => degraded === undefined);
  const frozen = faults.filter(({ effects }) => effects.includes('clock_frozen'));
  const losses = countOverlaps(faults.filter(({ effects }) => effects.includes('data_lost')));
  const violations = overruns(
    rule,
    counted.map((call) => certainly(call, frozen)),
    losses,
    'all instances',
  );
  if (hasIds(rule.algorithm)) return violations;
  for (let instance = 0; instance < plan.instances; instance++) {
    const share = divideLimit(rule, plan.workers?.[instance] ?? 1);
    const own = passed.filter((call) => countedAlone(call) && call.instance === instance);
    const starts = countOverlaps(faults.filter(({ on, effects }) => on === instance && effects.includes('local_lost')));
    const admitted = own.map((call) => certainly(call, []));
    violations.push(...overruns(share, admitted, starts, `instance ${instance} by itself`));
  }
  return violations;
}

/** Whether a call has failed, so that its caller decides. */
export const isUndecided = ({ outcome }: CallRecord): boolean => outcome !== 'OK' && outcome !== 'OVER_LIMIT';

/** Whether no answer to a call can be expected. A frozen instance answers, though late. */
const wasInstanceAway = (call: CallRecord, faults: readonly FaultRecord[]): boolean => {
  const excuses = isUndecided(call) ? faults.filter(({ kind }) => kind !== FREEZE) : faults;
  return wasInstanceHurt(call, excuses, RECONNECT_MS);
};

/** Checks a policy that promises answers: at most its bound passes a caller that fails open. */
function overFailingOpen(rule: ChaosRule, calls: readonly CallRecord[], log: RunLog): Violation[] {
  const { onStoreFailure: policy } = rule;
  if (policy !== 'local' && policy !== 'deny') return [];
  return findFailingOpenOverruns(rule, calls, log).map(({ fromMs, toMs, hits, most, calls: evidence }) => ({
    invariant: 'within its limit, with a failing-open caller',
    what: `${rule.key}: ${round(hits)} hits were admitted or not decided, at most ${round(most)} are allowed, from ${round(fromMs)} to ${round(toMs)}`,
    evidence,
  }));
}

/**
 * Finds intervals in which a caller lets more pass than the limit, and the shares of instances that count by themselves,
 * if it lets pass what a running instance does not decide in time.
 */
export function findFailingOpenOverruns(
  rule: ChaosRule,
  calls: readonly CallRecord[],
  { plan, faults }: RunLog,
): readonly Overrun[] {
  const passed = calls.filter((call) => isOpened(call, plan.answerWithinMs) && !wasInstanceAway(call, faults));
  const frozen = faults.filter(({ effects }) => effects.includes('clock_frozen'));
  const losses = countOverlaps(
    faults.filter(({ effects }) => effects.includes('data_lost') || effects.includes('local_lost')),
  );
  return findOverruns(
    rule.onStoreFailure === 'local' || calls.some(countedAlone) ? withShares(rule, plan) : rule,
    passed.map((call) => certainly(call, frozen)),
    losses,
  );
}

/** Whether an instance decided without the store. */
const countedAlone = ({ degraded }: CallRecord): boolean => degraded === 'local';

/** Whether a caller that fails open lets a request pass. */
const isOpened = ({ outcome, sentMs, answeredMs }: CallRecord, withinMs: number): boolean =>
  outcome !== 'OVER_LIMIT' || answeredMs - sentMs > withinMs;

/** The limit of the store and of all instances by themselves. */
function withShares(rule: ChaosRule, { instances, workers }: RunLog['plan']): ChaosRule {
  const shares = Array.from({ length: instances }, (_, at) => divideLimit(rule, workers?.[at] ?? 1));
  const limit = shares.reduce((sum, share) => sum + share.limit, rule.limit);
  if (rule.burst === undefined) return { ...rule, limit };
  return { ...rule, limit, burst: shares.reduce((sum, share) => sum + (share.burst ?? 0), rule.burst) };
}

/** No hit may be counted twice: those of calls that were admitted, not decided, or refused by a policy. */
function countedTwice({ key, isTotal }: ChaosRule, calls: readonly CallRecord[], { counts }: RunLog): Violation[] {
  if (!isTotal) return [];
  const countable = calls.filter(({ outcome, degraded }) => outcome !== 'OVER_LIMIT' || degraded !== undefined);
  const most = countable.reduce((hits, call) => hits + call.hits, 0);
  const wrong = counts.filter((count) => count.key === key && count.counted > most);
  return wrong.map((count) => ({
    invariant: 'counted once',
    what: `${key}: ${count.counted} hits were counted, ${most} were admitted, not decided, or refused by the policy`,
    evidence: [count],
  }));
}

function decreased({ plan: { instances }, scrapes }: RunLog): Violation[] {
  const invariant = 'counters never decrease';
  const unread = Array.from({ length: instances }, (_, at) => at).filter(
    (at) => !scrapes.some(({ instance, series }) => instance === at && series > 0),
  );
  const wrong = scrapes.filter((scrape) => scrape.decreased.length > 0);
  return [
    ...unread.map((at): Violation => ({ invariant, what: `instance ${at} was never scraped twice`, evidence: [] })),
    ...wrong.slice(0, 1).map((first): Violation => {
      const what = `${first.decreased.length} series of instance ${first.instance} decreased, and in ${wrong.length - 1} more scrapes`;
      return { invariant, what, evidence: wrong };
    }),
  ];
}

const slotViolations = (rule: ChaosRule, calls: readonly CallRecord[], { faults }: RunLog): Violation[] =>
  findSlotFindings(rule, calls, faults).map(({ kind, atMs, held, most, calls: evidence }) =>
    kind === 'too many'
      ? {
          invariant: 'within its limit',
          what: `${rule.key}: ${held} slots were held at ${round(atMs)}, at most ${most} are allowed`,
          evidence,
        }
      : {
          invariant: 'every slot comes back',
          what: `${rule.key}: a request was refused at ${round(atMs)}, when at most ${held} of ${most} slots were held`,
          evidence,
        },
  );

const reservationViolations = (rule: ChaosRule, calls: readonly CallRecord[], { faults }: RunLog): Violation[] =>
  findReservationFindings(rule, calls, faults).map(({ kind, atMs, hits, most, calls: evidence }) =>
    kind === 'too many'
      ? {
          invariant: 'within its limit',
          what: `${rule.key}: ${round(hits)} hits were charged or on hold at ${round(atMs)}, at most ${most} are allowed`,
          evidence,
        }
      : {
          invariant: 'charged once, and free after the ttl',
          what: `${rule.key}: a request was refused at ${round(atMs)}, with which at most ${round(hits)} of ${most} hits were charged or on hold`,
          evidence,
        },
  );

const overruns = (rule: ChaosRule, admitted: readonly Admitted[], losses: Losses, admittedBy: string): Violation[] =>
  findOverruns(rule, admitted, losses).map(({ fromMs, toMs, hits, most, calls }) => ({
    invariant: 'within its limit',
    what: `${rule.key}: ${admittedBy} admitted ${round(hits)} hits, at most ${round(most)} are allowed, from ${round(fromMs)} to ${round(toMs)}`,
    evidence: calls,
  }));

const round = (value: number): number => Math.round(value * 10) / 10;

/** When a call was counted: between its request and its answer, or earlier if the counter's clock was frozen. */
const certainly = (call: CallRecord, frozen: readonly FaultRecord[]): Admitted => ({
  call,
  fromMs: countedFromMs(call, frozen),
  toMs: call.answeredMs,
});

const countOverlaps =
  (faults: readonly FaultRecord[]): Losses =>
  (fromMs, toMs) =>
    faults.filter((fault) => overlaps(fault, fromMs, toMs)).length;

/**
 * The limit that an instance may admit by itself: once in each window, no matter how many outages it has, and once
 * more after a restart.
 *
 * @param workers  worker processes of the instance; each counts separately
 */
function divideLimit(rule: ChaosRule, workers: number): ChaosRule {
  const { localShare = 1, limit, burst } = rule;
  const part = (hits: number): number => Math.floor(hits / localShare);
  const ofAll = (hits: number): number => hits * workers;
  const bursts = burst !== undefined && { burst: ofAll(part(burst)) };
  return { ...rule, limit: ofAll(part(limit)), ...bursts };
}

/**
 * If counters cannot be reached, the rule's policy must answer, or a process that is late by itself; without a policy,
 * the status is UNAVAILABLE.
 */
function againstPolicy(rule: ChaosRule, calls: readonly CallRecord[], { faults }: RunLog): Violation[] {
  const { key, onStoreFailure: policy } = rule;
  const wrong = calls.filter((call) => {
    const { outcome, degraded } = call;
    const isOverload = countedAlone(call) && !hasIds(rule.algorithm); // on_overload
    if (degraded !== undefined && !isOverload && (degraded !== policy || outcome === forbidden[policy])) return true;
    if (!isUndecided(call)) return false;
    return !(outcome === 'UNAVAILABLE' && policy === 'error') && !wasInstanceAway(call, faults);
  });
  if (wrong.length === 0) return [];
  const what = `${key}: ${wrong.length} answers are not what on_store_failure: ${policy} says`;
  return [{ invariant: 'as its policy says', what, evidence: wrong }];
}

/** An instance that was stopped for a while decides all calls if its store works; limits with ids have no local share. */
function undecidedAfterStop(rule: ChaosRule, calls: readonly CallRecord[], { plan, faults }: RunLog): Violation[] {
  if (hasIds(rule.algorithm)) return [];
  const others = faults.filter(({ kind }) => kind !== FREEZE);
  const stops = faults.filter(({ kind }) => kind === FREEZE);
  const isExcused = ({ sentMs, answeredMs }: CallRecord): boolean =>
    others.some(({ begunMs, endedMs }) => begunMs <= answeredMs && endedMs + plan.normalWithinMs >= sentMs);
  const wrong = calls.filter(
    (call) => isUndecided(call) && wasInstanceHurt(call, stops, plan.normalWithinMs) && !isExcused(call),
  );
  if (wrong.length === 0) return [];
  const what = `${rule.key}: ${wrong.length} calls failed although only their instance had been stopped`;
  return [{ invariant: 'decided after a stop', what, evidence: wrong }];
}

/** The answer that a policy never gives; `error` gives none, and `local` may give both. */
const forbidden = { error: undefined, allow: 'OVER_LIMIT', deny: 'OK', local: undefined } as const;

/** Reports a limit that only admitted or only refused, since it proves nothing. */
function neverReached({ key, isTotal }: ChaosRule, calls: readonly CallRecord[]): Violation[] {
  if (isTotal) return [];
  const counted = calls.filter((call) => !isTrouble(call) && !call.isRelease && !call.isCommit);
  const missing = ['OK', 'OVER_LIMIT'].filter((expected) => !counted.some(({ outcome }) => outcome === expected));
  return missing.map((outcome) => {
    const what = `${key}: the counters answered ${outcome} to none of ${counted.length} calls`;
    return { invariant: 'every limit was reached', what, evidence: [] };
  });
}

function notNormal(log: RunLog): Violation[] {
  const { normalWithinMs } = log.plan;
  return findSpells(log).flatMap(({ faults, endedMs, calls }): Violation[] => {
    const trouble = calls.filter((call) => isTrouble(call) && call.sentMs > endedMs + normalWithinMs);
    if (trouble.length === 0) return [];
    const after = faults.length === 0 ? 'before the first fault' : `more than ${normalWithinMs} ms after`;
    const kinds = faults.map(({ kind, on }) => (typeof on === 'number' ? `${kind}: ${on}` : kind)).join(', ');
    const what = `${trouble.length} calls failed or were degraded ${after} ${kinds}`.trimEnd();
    return [{ invariant: 'back to normal', what, evidence: [...faults, ...trouble] }];
  });
}
