import { writeDuration } from '../../base/texts.ts';
import { type Rate, type RateLimit, rateFor, rateNames, rates } from '../../engine/algorithms/index.ts';
import type { AnyLimit, Charge, Decision, Outcome, State, Step } from '../../engine/algorithms/limit.ts';
import { showCount } from '../../engine/algorithms/money.ts';
import { type Opened, steppedOpen } from '../../engine/algorithms/stepped.ts';
import type { Claim } from '../../engine/holds/claim.ts';
import { type Counting, peek } from '../../engine/holds/counting.ts';
import type { Reports } from '../../engine/holds/reports.ts';
import { compiled } from '../../engine/lua/compiled.ts';

/** A limit that, once exceeded, refuses everything for a time. */
export interface PenaltyLimit extends AnyLimit {
  readonly algorithm: 'penalty';
  /** The limit that must not be exceeded. */
  readonly inner: RateLimit;
  /** How long the first block lasts. */
  readonly blockMs: number;
  /** The factor by which each further block is longer: an integer, 1 if all are equal. */
  readonly growth: number;
  readonly longestMs: number;
  /** The time after a block after which the next one is the first again; 0 if all are equal. */
  readonly forgivenMs: number;
  /** Refused hits begin the block anew. */
  readonly isProlonged: boolean;
}

interface PenaltyNumbers {
  /** The place of the counter's algorithm. */
  readonly algorithm: number;
  readonly blockMs: number;
  readonly growth: number;
  readonly longestMs: number;
  readonly forgivenMs: number;
  /** 1 if refused hits begin the block anew. */
  readonly prolongs: number;
  /** 1 if only its block refuses. */
  readonly watches: number;
  /** The counter's own limit. */
  readonly inner: RateLimit;
}

/** A counter during a step. Its list is empty: all numbers are in these. */
interface Penalized extends Opened {
  /** When the last block ends, and how long it lasts; 0 if there was none. */
  untilMs: number;
  lengthMs: number;
  /** State of the counter that must not be exceeded; undefined if it is like a new one. */
  inner: State | undefined;
  /** Of the counter's last step. */
  innerTtlMs: number;
  innerReport: State;
}

/** Numbers of a report before those of the counter. */
const OWN_NUMBERS = 3;

/** What a step did: its hits were counted; or they were refused by a block, when the counter has room or has none. */
const COUNTED = 0;
const BLOCKED = 1;
const BLOCKED_TWICE = 2;

const stepInner = (
  limit: PenaltyNumbers,
  inner: State | undefined,
  nowMs: number,
  hits: number,
  charge: Charge,
): Step => (rates[limit.algorithm] as Rate).step(limit.inner, inner, nowMs, hits, charge);

export function open(_limit: PenaltyNumbers, numbers: number[], _nowMs: number): Penalized {
  const length = numbers.length;
  const list = numbers as Penalized; // it becomes one here
  list.untilMs = numbers[0] ?? 0;
  list.lengthMs = numbers[1] ?? 0;
  list.inner = undefined;
  if (length > 2) {
    const inner: number[] = [];
    for (let at = 2; at < length; at++) inner[at - 2] = numbers[at] ?? 0;
    list.inner = inner;
  }
  list.dropped = length;
  writeBefore(list);
  return list;
}

/** What a state consists of. */
function writeBefore(list: Penalized): void {
  const block = [list.untilMs, list.lengthMs];
  list.before = list.inner === undefined ? [block] : [block, list.inner];
}

/**
 * A penalty: the counter of another algorithm, and a block that begins when its limit is exceeded.
 * State: when the last block ends (ms since the epoch) and how long it lasts, then the counter's own state.
 * Report: the same two numbers, and what the step did; then the counter's own report.
 *
 * During a block hits are refused and not counted. Hits that have passed already are counted, and begin a block as soon
 * as not one more fits: nobody asks for the hit that would exceed the limit.
 *
 * @param nowMs   may run backwards (clock skew): a block lasts longer then
 * @param hits    0 peeks, a negative number gives hits back, which ends no block
 * @param charge  false to leave the counter unchanged and only return the outcome
 */
export function step(limit: PenaltyNumbers, list: Penalized, nowMs: number, hits: number, charge: Charge): Step {
  const isBlocked = nowMs < list.untilMs;
  if (isBlocked && hits >= 0 && charge !== 'regardless') {
    const now: Step = stepInner(limit, list.inner, nowMs, hits, false);
    keepInner(list, now.state, now.ttlMs, now.report ?? now.state);
    if (charge && hits > 0) prolong(limit, list, nowMs);
    return finishStep(limit, list, nowMs, false, now.accepted ? BLOCKED : BLOCKED_TWICE);
  }
  const next: Step = stepInner(limit, list.inner, nowMs, hits, charge);
  keepInner(list, next.state, next.ttlMs, next.report ?? next.state);
  if (isBlocked) {
    if (hits > 0) prolong(limit, list, nowMs);
  } else if (charge !== false && hits > 0 && isExceeded(limit, list, nowMs, next.accepted, charge))
    block(limit, list, nowMs);
  const isAccepted = next.accepted || limit.watches === 1;
  return finishStep(limit, list, nowMs, isAccepted && (hits < 0 || !isBlocked), COUNTED);
}

/** Ends no block. */
export function refund(limit: PenaltyNumbers, list: Penalized, nowMs: number, hits: number, chargedAtMs: number): Step {
  const back: Step = (rates[limit.algorithm] as Rate).refund(limit.inner, list.inner, nowMs, hits, chargedAtMs);
  keepInner(list, back.state, back.ttlMs, back.report ?? back.state);
  return finishStep(limit, list, nowMs, true, COUNTED);
}

/** Whether counted hits begin a block. */
function isExceeded(limit: PenaltyNumbers, list: Penalized, nowMs: number, accepted: boolean, charge: Charge): boolean {
  if (charge !== 'regardless' || !accepted) return !accepted;
  const more: Step = stepInner(limit, list.inner, nowMs, 1, false);
  return !more.accepted;
}

function block(limit: PenaltyNumbers, list: Penalized, nowMs: number): void {
  const isFurther = list.lengthMs > 0 && nowMs < list.untilMs + limit.forgivenMs;
  const lengthMs = isFurther ? Math.max(list.lengthMs * limit.growth, limit.blockMs) : limit.blockMs;
  list.lengthMs = Math.min(lengthMs, limit.longestMs);
  list.untilMs = nowMs + list.lengthMs;
}

function prolong(limit: PenaltyNumbers, list: Penalized, nowMs: number): void {
  if (limit.prolongs === 1) list.untilMs = Math.max(list.untilMs, nowMs + list.lengthMs);
}

/** Keeps the result of the counter's step, unless it is like a new one. */
function keepInner(list: Penalized, state: State, ttlMs: number, report: State): void {
  list.inner = ttlMs > 0 ? state : undefined;
  list.innerTtlMs = ttlMs;
  list.innerReport = report;
}

function finishStep(limit: PenaltyNumbers, list: Penalized, nowMs: number, accepted: boolean, did: number): Step {
  const inner = list.innerReport;
  const count = inner.length;
  const first = droppedIn(inner);
  const report = [list.untilMs, list.lengthMs, did];
  for (let at = first; at < count; at++) report[OWN_NUMBERS + at - first] = inner[at] ?? 0;
  writeBefore(list);
  const rememberedMs = list.untilMs > 0 ? list.untilMs + limit.forgivenMs - nowMs : 0;
  return { accepted, state: list, ttlMs: Math.max(list.innerTtlMs, rememberedMs, 0), report };
}

/** How many of the first numbers of a counter's state do not count. */
const droppedIn = (inner: State): number => (inner as Opened).dropped ?? 0;

const counted = steppedOpen<PenaltyLimit, PenaltyNumbers, Penalized, Claim>({
  compiled: compiled.penalty,
  numbers: ({ inner, blockMs, growth, longestMs, forgivenMs, isProlonged, above }) => ({
    algorithm: rateNames.indexOf(inner.algorithm),
    blockMs,
    growth,
    longestMs,
    forgivenMs,
    prolongs: isProlonged ? 1 : 0,
    watches: above === undefined ? 0 : 1,
    inner,
  }),
  open,
  step,
  refund,
});

/** The keys of a penalty as in rules. */
const writePenalty = ({ blockMs, growth, longestMs, forgivenMs, isProlonged }: PenaltyLimit) => ({
  block: writeDuration(blockMs),
  ...(growth > 1 && {
    grow: `${growth}x up to ${writeDuration(longestMs)}`,
    forgiven_after: writeDuration(forgivenMs),
  }),
  ...(isProlonged && { prolong: true }),
});

function describe(
  limit: PenaltyLimit,
  [untilMs = 0, lengthMs = 0, did = COUNTED, ...report]: State,
  nowMs: number,
  { hits, accepted, charged }: Outcome,
): Decision & Reports {
  const own = rateFor(limit.inner).describe(limit.inner, report, nowMs, {
    hits,
    accepted: did === COUNTED ? accepted : did === BLOCKED,
    charged: did === COUNTED && charged,
  });
  const leftMs = Math.max(untilMs - nowMs, 0);
  if (leftMs === 0) return own;
  const [resetMs, retryMs] = limit.above === undefined ? [own.durationUntilResetMs, own.retryAfterMs] : [0, 0];
  return {
    ...own,
    code: accepted ? 'OK' : 'OVER_LIMIT',
    limitRemaining: 0,
    durationUntilResetMs: Math.max(resetMs, leftMs),
    retryAfterMs: accepted ? 0 : Math.max(retryMs, leftMs),
    repeatAfterMs: accepted && hits > 0 ? Math.max(own.repeatAfterMs ?? 0, leftMs) : undefined,
    soft: accepted && own.soft,
    penalty: { leftMs, lengthMs, isBegun: did === COUNTED && lengthMs === leftMs },
  };
}

/** The row of penalties: rules have `penalty` beside the algorithm that counts. */
export const penalty: Counting<PenaltyLimit> = {
  notARate: 'penalty refuses for a time of its own, which no rate describes',
  named: ({ inner }) => inner.algorithm,
  words({ blockMs, growth, longestMs, above }, rate) {
    const block = `blocked for ${writeDuration(blockMs)}${growth > 1 ? ` to ${writeDuration(longestMs)}` : ''}`;
    return above === undefined ? `${rate}, else ${block}` : `${block} when over ${rate}`;
  },
  write: (limit) => [
    ...rateFor(limit.inner).write(limit.inner),
    `penalty: { ${Object.entries(writePenalty(limit))
      .map(([key, value]) => `${key}: ${value}`)
      .join(', ')} }`,
  ],
  list: (limit) => ({ ...rateFor(limit.inner).list(limit.inner), penalty: writePenalty(limit) }),
  capacity: ({ inner }) => rateFor(inner).capacity(inner),
  longestMemoryMs: ({ inner, longestMs, forgivenMs }) =>
    Math.max(rateFor(inner).longestMemoryMs(inner), longestMs + forgivenMs),
  blocks: true,
  waitForMoreMs: ({ inner }, hits) => rateFor(inner).waitForMoreMs?.(inner, hits),
  refusalHoldsMs: ({ isProlonged }, { decision, hits }) =>
    isProlonged || hits > 1 ? 0 : (decision.penalty?.leftMs ?? 0),
  heldAt({ inner }) {
    const { first, last, ...held } = rateFor(inner).heldAt(inner);
    return { ...held, first: OWN_NUMBERS + first, last: OWN_NUMBERS + last };
  },
  account({ inner }, state, nowMs) {
    const row = rateFor(inner);
    const own = state?.slice(2);
    const { hitsBefore: used } = peek(row, inner, own, nowMs);
    return row.account?.(inner, own, nowMs) ?? { terms: [showCount(inner, used)], used };
  },
  ...counted,
  describe,
  draw: ({ inner }, state, nowMs) =>
    rateFor(inner).draw?.(inner, state?.slice(2), nowMs) ?? { kind: 'window', windowMs: inner.windowMs },
  state: {
    longest: ({ inner }) => rateFor(inner).state.longest?.(inner) ?? 0,
  },
  scriptArgs: (limit, nowMs, claim) => [
    ...counted.scriptArgs(limit, nowMs, claim),
    ...rateFor(limit.inner).scriptArgs(limit.inner, nowMs),
  ],
};
