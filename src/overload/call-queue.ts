import { type Monotonic, monotonicMs } from '../clock.ts';
/** A call whose request has arrived in full, but is not decoded yet. */
export interface PendingCall {
  /** When its request was complete (monotonic clock). */
  readonly completeAtMs: number;
  /** Decodes and handles the call. @returns the work done, in units of `SLICE_UNITS` */
  run(): number;
  /** Answers that the process is overloaded. */
  refuse(): void;
}

/** A queue of calls that wait to be decoded. */
export interface CallQueue {
  /** Number of queued calls. */
  readonly length: number;
  /** More calls wait than fit a turn, and the first has waited for too long: so would a new one. */
  readonly isBehind: boolean;
  /**
   * Whether a call may run at once: no call is ahead of it, and this turn's slice has room.
   *
   * @param estimate  upper bound for the call's work, in units
   */
  mayRun(estimate: number): boolean;
  /** Records the work of a call that ran at once, or further work of any call while it runs. */
  spend(units: number): void;
  /** A call was refused as soon as it came: the next turn decides more. */
  noteRefusal(): void;
  /** @param estimate  upper bound for the call's work: costly calls run after cheap ones */
  add(call: PendingCall, estimate: number): void;
  close(): void;
}

/**
 * Work per turn of the event loop. A unit is about one descriptor, or a kilobyte of request: 3 to 7 µs. Between two
 * slices the process reads from its sockets and sends answers.
 */
export const SLICE_UNITS = 256;
/**
 * Further work in a turn for each call that was refused since the one before, and the most of it. To read and refuse a
 * call takes as long as several units: with the same slice for every turn, a process that refuses most calls would
 * spend most of its time on those.
 */
const UNITS_PER_REFUSAL = 12;
const MAX_FURTHER_UNITS = 2_048;
/** Calls that may cost more run last, one per turn: compressed messages that may unpack to megabytes. */
const COSTLY_UNITS = 1_024;
/** The estimate of a call that decides nothing and may be costly however small it is. */
export const QUESTION_UNITS = Number.POSITIVE_INFINITY;
/** The cost of refusing a call that waited, or of dropping one whose caller cancelled. */
export const REFUSAL_UNITS = 1 / 4;

/**
 * Bounds the work per turn of the event loop, so that neither a flood of requests nor a few costly ones delay other
 * callers. Under light load, calls run at once and the queue stays empty.
 *
 * @param maxWaitMs  calls that have waited longer are refused undecoded: their answer would be late. Infinity: never
 * @param nowMs      a monotonic clock
 */
export function createCallQueue(maxWaitMs: number, nowMs: Monotonic = monotonicMs): CallQueue {
  const cheap = createFifo<PendingCall>();
  const costly = createFifo<PendingCall>();
  /** After all others, so that they do not delay decisions that are costly. */
  const questions = createFifo<PendingCall>();
  let unitsLeft = SLICE_UNITS;
  let refusals = 0;
  let turn: NodeJS.Immediate | undefined;
  let isClosed = false;

  const isStale = (call: PendingCall, atMs: number): boolean => atMs - call.completeAtMs > maxWaitMs;
  const handle = (call: PendingCall, atMs: number): void => {
    if (!isStale(call, atMs)) {
      const units = call.run(); // which may call `spend`
      unitsLeft -= units;
    } else {
      call.refuse();
      refusals++;
      unitsLeft -= REFUSAL_UNITS;
    }
  };
  const beginTurn = (): void => {
    turn = undefined;
    unitsLeft = SLICE_UNITS + Math.min(refusals * UNITS_PER_REFUSAL, MAX_FURTHER_UNITS);
    refusals = 0;
    if (cheap.length + costly.length + questions.length === 0) return;
    const atMs = nowMs();
    for (let call = cheap.take(); call; call = unitsLeft > 0 ? cheap.take() : undefined) handle(call, atMs);
    const last = costly.length > 0 ? costly : questions;
    for (let call = last.take(); call; call = last.takeIf((other) => isStale(other, atMs))) handle(call, atMs);
    awaitTurn();
  };
  const awaitTurn = (): void => {
    if (!isClosed) turn ??= setImmediate(beginTurn);
  };

  return {
    get length() {
      return cheap.length + costly.length + questions.length;
    },
    get isBehind() {
      if (cheap.length < SLICE_UNITS) return false;
      const first = cheap.first();
      return first !== undefined && isStale(first, nowMs());
    },
    mayRun(estimate) {
      if (unitsLeft <= 0 || cheap.length > 0) return false;
      return estimate <= COSTLY_UNITS || (costly.length === 0 && (estimate < QUESTION_UNITS || questions.length === 0));
    },
    spend(units) {
      unitsLeft -= units;
      awaitTurn();
    },
    noteRefusal() {
      refusals++;
    },
    add(call, estimate) {
      (estimate <= COSTLY_UNITS ? cheap : estimate < QUESTION_UNITS ? costly : questions).add(call);
      awaitTurn();
    },
    close() {
      isClosed = true;
      clearImmediate(turn);
    },
  };
}

/** A FIFO queue whose operations take constant time. */
function createFifo<T>() {
  let items: T[] = [];
  let first = 0;
  return {
    get length() {
      return items.length - first;
    },
    first: (): T | undefined => items[first],
    add(item: T): void {
      items.push(item);
    },
    take(): T | undefined {
      if (first === items.length) return undefined;
      const item = items[first++];
      if (first * 2 > items.length) {
        items = items.slice(first);
        first = 0;
      }
      return item;
    },
    /** Takes the first item if it meets the condition. */
    takeIf(condition: (item: T) => boolean): T | undefined {
      const item = items[first];
      return item !== undefined && condition(item) ? this.take() : undefined;
    },
  };
}
