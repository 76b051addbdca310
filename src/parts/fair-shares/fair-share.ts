import {
  type AnyLimit,
  hitsToFit,
  NEVER_MS,
  type State,
  type Step,
  takenBy,
  unitMs,
} from '../../engine/algorithms/limit.ts';
import { listNumbers } from '../../engine/algorithms/stepped.ts';
import type { Claim } from '../../engine/holds/claim.ts';
import type { Counting } from '../../engine/holds/counting.ts';
import { NODE_NUMBERS, nodeState, type ShareNode } from '../../engine/holds/nodes.ts';
import { shareReasons } from '../../engine/holds/reports.ts';
import type { ChildNumbers, Sharing } from '../../engine/holds/sharing.ts';
import { compiled } from '../../engine/lua/compiled.ts';
import {
  AT,
  judge,
  LEVEL,
  openPath,
  REPORT_HEAD,
  refund,
  type ShareNumbers,
  spareOf,
  step,
  UNITS,
} from './processor-sharing.ts';

/** A token bucket whose children share it. `burst` is the capacity of the full bucket. */
export interface FairShareLimit extends AnyLimit, Sharing {
  readonly algorithm: 'fair_share';
  readonly burst: number;
}

/** Hits of this threshold may use the whole bucket, and are not held to the fair share. */
const CRITICAL = 100;
/** Percentage of the bucket that is kept for children that come next. */
export const DEFAULT_SPARE = 5;
/** Avoids divisions by zero. */
const LEAST_RATE = 1e-6;

/** The nodes of a state. */
const splitNodes = (state: State): ShareNode[] =>
  Array.from(
    { length: state.length / NODE_NUMBERS },
    (_, at) => nodeState(state, at) as readonly number[] as ShareNode,
  ); // of as many numbers

const joinStep = ({ state, ...rest }: ReturnType<typeof step>): Step => ({ ...rest, state: state.flat() });

function numbersOf(limit: FairShareLimit, claim: Claim | undefined): ShareNumbers {
  const { requestsPerUnit, burst, path, windowMs, reserved = 0, spare = DEFAULT_SPARE } = limit;
  const { children = [], threshold = limit.threshold } = claim?.share ?? {};
  const capacity = burst * windowMs;
  const refillMs = capacity / Math.max(requestsPerUnit, 1);
  const depth = Math.min(path.length, children.length);
  const rate = Math.max(requestsPerUnit, LEAST_RATE);
  const numbers = {
    rate,
    windowMs,
    capacity,
    refillMs,
    forgetMs: forgetMs(windowMs, refillMs),
    reserved,
    spare,
    kept: 0,
    floor: threshold === undefined ? 0 : Math.floor((capacity * (100 - threshold)) / 100),
    critical: threshold === CRITICAL ? 1 : 0,
    depth,
    children: listChildren(path, depth, rate),
  };
  return { ...numbers, kept: spareOf(numbers, capacity) };
}

function listChildren(path: readonly ChildNumbers[], depth: number, rate: number): readonly number[] {
  const numbers: number[] = [];
  for (let at = 0; at < depth; at++) {
    const { reserve, weight, ceiling, reserved = 0 } = path[at] as ChildNumbers; // in range
    numbers.push(reserve, weight, ceiling, reserved, (weight * rate) / UNITS);
  }
  return numbers;
}

/** How long a child is remembered after its last call. */
const forgetMs = (windowMs: number, refillMs: number): number => unitMs.MINUTE + 2 * windowMs + Math.ceil(3 * refillMs);

const rememberedMs = ({ burst, requestsPerUnit, windowMs }: FairShareLimit): number =>
  forgetMs(windowMs, (burst * windowMs) / requestsPerUnit);

/** A promised wait may be later than needed by this part of it. */
const LATENESS = 16;

/** The time until refused hits would pass if nothing else arrives, rounded up by at most a sixteenth. */
function findWaitMs(limit: FairShareLimit, claim: Claim | undefined, state: State, hits: number): number {
  if (state.length === 0) return 1; // they would have passed alone
  const numbers = numbersOf(limit, claim);
  const { rate, windowMs, capacity, refillMs, kept, floor } = numbers;
  const atMs = state[AT] ?? 0;
  const wanted = hits * windowMs;
  const now = openPath(numbers, splitNodes(state), atMs);
  const levels = now.levels.filter((level) => level !== false);
  if (wanted > capacity - floor || levels.some(({ most }) => wanted > most)) return NEVER_MS;
  const waitFor = (least: number, at: number, perMs: number): number =>
    Math.ceil((least - (now.nodes[at]?.[LEVEL] ?? 0)) / perMs);
  const guessMs = Math.max(
    1,
    waitFor(Math.min(wanted + now.held + kept, capacity), 0, rate),
    ...levels.map((level, at) => waitFor(Math.min(wanted, level.capacity), at + 1, level.perMs)),
  );
  const passes = (ms: number): boolean => {
    const path = openPath(numbers, splitNodes(state), atMs + ms);
    judge(numbers, path, hits);
    return path.reason === 0;
  };
  const longestMs = 2 ** 20 * (refillMs + windowMs);
  let early = Math.floor((guessMs * (LATENESS - 1)) / LATENESS);
  let late = guessMs;
  if (passes(early)) [early, late] = [0, early];
  while (!passes(late)) {
    if (late > longestMs) return NEVER_MS;
    early = late;
    late *= 2;
  }
  while (late - early > 1 && (late - early) * LATENESS > late) {
    const between = Math.floor((early + late) / 2);
    if (passes(between)) late = between;
    else early = between;
  }
  return late;
}

/** The keys of a limit by which it is shared, as in a rule; none if it is not. */
export function writeSharing({ by, spare, path, threshold, thresholdAt }: Partial<Sharing>): readonly string[] {
  const child = path?.at(-1);
  const parts = [
    ...(child && child.reserve > 0 ? [`reserve: ${child.reserve}`] : []),
    ...(child ? [`weight: ${child.weight}`] : []),
    ...(child && child.ceiling > 0 ? [`ceiling: ${child.ceiling}`] : []),
    ...(threshold === undefined ? [] : [`priority: ${threshold}`]),
    ...(thresholdAt === undefined ? [] : ['priority: value']),
    ...(by === undefined ? [] : [`by: ${by}`]),
    ...(path?.length === 0 && spare !== undefined ? [`spare: ${spare}%`] : []),
  ];
  return parts.length === 0 ? [] : [`share: { ${parts.join(', ')} }`];
}

/** The same as JSON. */
export const listSharing = ({ by, path, threshold, spare }: Partial<Sharing>): object =>
  path === undefined
    ? {}
    : {
        share: {
          ...(by !== undefined && { by }),
          ...(path.length > 0 && { path }),
          ...(spare !== undefined && { spare }),
          ...(threshold !== undefined && { priority: threshold }),
        },
      };

/** The row of shared limits: rules have `share` beside a rate. */
export const fairShare: Counting<FairShareLimit> = {
  notARate: 'share divides the limit among children, and it applies to none of them alone',
  named: () => 'token_bucket',
  write: (limit) => [
    ...(limit.burst === limit.requestsPerUnit ? [] : [`burst: ${limit.burst}`]),
    ...writeSharing(limit),
  ],
  list: (limit) => ({ burst: limit.burst, ...listSharing(limit) }),
  capacity: ({ burst }) => burst,
  refillMs: rememberedMs,
  longestMemoryMs: (limit) => Math.max(rememberedMs(limit), unitMs.DAY),
  step: (limit, state, nowMs, hits, charge, claim) =>
    joinStep(step(numbersOf(limit, claim), state && splitNodes(state), nowMs, hits, charge)),
  refund: (limit, state, nowMs, hits, chargedAtMs, claim) =>
    joinStep(refund(numbersOf(limit, claim), state && splitNodes(state), nowMs, hits, chargedAtMs)),
  describe(limit, report, _nowMs, outcome, claim) {
    const { requestsPerUnit, windowMs, burst } = limit;
    const [reason = 0, level = 0, left = 0, room = 0, used = 0, borrowed = 0, guard = 0, held = 0] = report;
    const taken = burst * windowMs - left;
    const isForChild = limit.path.length > 0 && (claim?.share?.children.length ?? 0) > 0;
    return {
      code: outcome.accepted ? 'OK' : 'OVER_LIMIT',
      hitsBefore: Math.max(Math.ceil(taken / windowMs) - takenBy(outcome), 0),
      limitRemaining: Math.floor(room / windowMs),
      durationUntilResetMs: Math.ceil(taken / Math.max(requestsPerUnit, LEAST_RATE)),
      retryAfterMs: outcome.accepted ? 0 : findWaitMs(limit, claim, report.slice(REPORT_HEAD), hitsToFit(outcome.hits)),
      delayMs: 0,
      soft: false,
      share: {
        reason: shareReasons[reason] ?? 'passed',
        level,
        used,
        borrowed,
        unspent: Math.floor(Math.max(guard, 0) / windowMs),
        held: isForChild ? Math.ceil(held / windowMs) : 0,
      },
    };
  },
  heldAt: ({ windowMs }) => ({ first: 2, last: 2, unit: windowMs }),
  draw: () => ({ kind: 'level' }),
  isActiveChild(state, nowMs, _child, { windowMs }) {
    const atMs = state?.at(AT - NODE_NUMBERS) ?? 0; // of the last child
    return Math.floor(nowMs / windowMs) - Math.floor(atMs / windowMs) <= 1;
  },
  state: { hasNodes: true, version: 3 },
  script: compiled.processor_sharing,
  // equal for all children of the same rule
  scriptArgs: (limit, _nowMs, claim) => listNumbers(compiled.processor_sharing.fields, numbersOf(limit, claim)),
};
