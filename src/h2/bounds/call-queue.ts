import { type Monotonic, monotonicMs } from '../../base/clock.ts';
import { createFifo } from './fifo.ts';
import type { LateCalls } from './late-calls.ts';

/** A call whose request has arrived in full, but is not decoded yet. Times are of the monotonic clock. */
export interface PendingCall {
  /** The connection that it came on. */
  readonly connection: object;
  /** When its request was complete. */
  readonly completeAtMs: number;
  /** From this time on an answer would be late; Infinity: it never is. */
  readonly expiresAtMs: number;
  /** Decodes and handles the call. @returns the work done, in units of `SLICE_UNITS` */
  run(): number;
  /** Ends the call without a decision. @returns the work done */
  expire(): number;
}

/** The cost of handling a decoded request. */
export interface Cost {
  /** Memory held until it is answered. */
  readonly bytes: number;
  /** Work, in units of `SLICE_UNITS`. */
  readonly units: number;
}

/** A queue of calls that wait to be decoded. */
export interface CallQueue {
  /** Number of queued calls. */
  readonly length: number;
  /** More calls wait than fit a turn. */
  readonly isBehind: boolean;
  /**
   * Whether a call may run at once: no call is ahead of it, and this turn's slice has room.
   *
   * @param estimate  upper bound for the call's work, in units
   */
  mayRun(estimate: number): boolean;
  /** Records the work of a call that ran at once, or further work of any call while it runs. */
  spend(units: number): void;
  /** @param estimate  upper bound for the call's work: costly calls run after cheap ones */
  add(call: PendingCall, estimate: number): void;
  close(): void;
}

/**
 * Work per turn of the event loop. A unit is about one descriptor, or a kilobyte of request: 3 to 7 µs. Between two
 * slices the process reads from its sockets and sends answers.
 */
export const SLICE_UNITS = 256;
/** The most further work in a turn, for calls that were queued since the one before: the queue would only grow. */
const MAX_FURTHER_UNITS = 2_048;
/** Calls that may cost more run last, one per turn: compressed messages that may unpack to megabytes. */
const COSTLY_UNITS = 1_024;
/** The estimate of a call that decides nothing and may be costly however small it is. */
export const QUESTION_UNITS = Number.POSITIVE_INFINITY;
/** The cost of ending a call without a decision. */
export const EXPIRY_UNITS = 1 / 4;

/**
 * Bounds the work per turn of the event loop, so that neither a flood of requests nor a few costly ones delay other
 * callers. Connections take turns; within one, the call that expires first goes first. A call that has expired is not
 * decided. Under light load, calls run at once and the queue stays empty.
 *
 * @param late   counts calls that have expired
 * @param nowMs  a monotonic clock
 */
export function createCallQueue(late: Pick<LateCalls, 'size' | 'count'>, nowMs: Monotonic = monotonicMs): CallQueue {
  const cheap = new FairQueue();
  const costly = createFifo<PendingCall>();
  /** After all others, so that they do not delay decisions that are costly. */
  const questions = createFifo<PendingCall>();
  let unitsLeft = SLICE_UNITS;
  let unitsAdded = 0;
  let turn: NodeJS.Immediate | undefined;
  let isClosed = false;

  const length = (): number => cheap.length + costly.length + questions.length;
  const hasExpired = (call: PendingCall): boolean => nowMs() >= call.expiresAtMs;
  const handle = (call: PendingCall): void => {
    const units = hasExpired(call) ? call.expire() : call.run(); // which may call `spend`
    unitsLeft -= units;
  };
  const beginTurn = (): void => {
    turn = undefined;
    unitsLeft = SLICE_UNITS + Math.min(unitsAdded, MAX_FURTHER_UNITS);
    unitsAdded = 0;
    if (length() + late.size === 0) return;
    for (let call = cheap.take(); call; call = unitsLeft > 0 ? cheap.take() : undefined) handle(call);
    const last = costly.length > 0 ? costly : questions;
    for (let call = last.take(); call; call = last.takeIf(hasExpired)) handle(call);
    late.count();
    awaitTurn();
  };
  const awaitTurn = (): void => {
    if (!isClosed) turn ??= setImmediate(beginTurn);
  };

  return {
    get length() {
      return length();
    },
    get isBehind() {
      return cheap.length >= SLICE_UNITS;
    },
    mayRun(estimate) {
      if (unitsLeft <= 0 || cheap.length > 0) return false;
      return estimate <= COSTLY_UNITS || (costly.length === 0 && (estimate < QUESTION_UNITS || questions.length === 0));
    },
    spend(units) {
      unitsLeft -= units;
      awaitTurn();
    },
    add(call, estimate) {
      if (estimate <= COSTLY_UNITS) {
        cheap.add(call);
        unitsAdded += estimate;
      } else (estimate < QUESTION_UNITS ? costly : questions).add(call);
      awaitTurn();
    },
    close() {
      isClosed = true;
      clearImmediate(turn);
    },
  };
}

/** Calls of several connections, which take turns. */
class FairQueue {
  length = 0;
  readonly #byConnection = new Map<object, EarliestFirst>();
  readonly #turns = createFifo<EarliestFirst>();

  add(call: PendingCall): void {
    this.length++;
    let calls = this.#byConnection.get(call.connection);
    if (!calls) {
      calls = new EarliestFirst();
      this.#byConnection.set(call.connection, calls);
      this.#turns.add(calls);
    }
    calls.add(call);
  }

  take(): PendingCall | undefined {
    const calls = this.#turns.take();
    const call = calls?.take();
    if (!calls || !call) return undefined;
    this.length--;
    if (calls.isEmpty) this.#byConnection.delete(call.connection);
    else this.#turns.add(calls);
    return call;
  }
}

/** Calls that have more time left than this are in order of arrival. */
const LONGEST_WAIT_MS = 1_000;

/** A call in a heap. */
interface Place {
  readonly call: PendingCall;
  readonly dueAtMs: number;
  /** Calls with the same time are in order of arrival. */
  readonly number: number;
}

/** A binary heap of one connection's calls. */
class EarliestFirst {
  readonly #places: Place[] = [];
  #added = 0;

  get isEmpty(): boolean {
    return this.#places.length === 0;
  }

  add(call: PendingCall): void {
    const dueAtMs = Math.min(call.expiresAtMs, call.completeAtMs + LONGEST_WAIT_MS);
    const place = { call, dueAtMs, number: this.#added++ };
    const places = this.#places;
    let at = places.push(place) - 1;
    for (let parent = (at - 1) >> 1; at > 0 && isBefore(place, places[parent]); parent = (at - 1) >> 1) {
      places[at] = places[parent] as Place; // in range
      at = parent;
    }
    places[at] = place;
  }

  take(): PendingCall | undefined {
    const places = this.#places;
    const [first] = places;
    const last = places.pop();
    if (!first || !last || last === first) return first?.call;
    let at = 0;
    for (let child = 1; child < places.length; child = 2 * at + 1) {
      if (child + 1 < places.length && isBefore(places[child + 1] as Place, places[child])) child++; // in range
      if (!isBefore(places[child] as Place, last)) break; // in range
      places[at] = places[child] as Place; // in range
      at = child;
    }
    places[at] = last;
    return first.call;
  }
}

const isBefore = (place: Place, other: Place | undefined): boolean =>
  other === undefined ||
  (place.dueAtMs === other.dueAtMs ? place.number < other.number : place.dueAtMs < other.dueAtMs);
