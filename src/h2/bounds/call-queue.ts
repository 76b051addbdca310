import { type Monotonic, monotonicMs } from '../../base/clock.ts';
import type { LateCalls } from './late-calls.ts';

/** A call whose request has arrived in full, but is not decoded yet. Times are of the monotonic clock. */
export interface PendingCall {
  /** The connection that it came on. */
  readonly connection: CallSource;
  /** Time after which an answer is late; Infinity for never. */
  readonly expiresAtMs: number;
  /** Time by which calls of one connection are ordered, earliest first. */
  readonly dueAtMs: number;
  /** Decodes and handles the call, or only ends it if it is late. @returns the work done, in units of `SLICE_UNITS` */
  run(nowMs: number, isLate?: boolean): number;
}

/** The connection of a call, as far as the queue is concerned. */
export interface CallSource {
  /** Its queued calls, and its costly ones; used only by the queue. */
  waiting?: WaitingCalls | undefined;
  waitingCostly?: WaitingCalls | undefined;
  /** Whether it had much input in this turn, so that calls may wait in its socket. */
  hasMuchInput?: boolean;
}

/** The cost of handling a decoded request. */
export interface Cost {
  /** Memory held until it is answered. */
  readonly bytes: number;
  /** Work, in units of `SLICE_UNITS`. */
  readonly units: number;
}

/** A queue of calls that have not been decoded. */
export type CallQueue = ReturnType<typeof createCallQueue>;

/**
 * Work per turn of the event loop, between which the process reads its sockets and sends answers. A unit is 3 to 7 µs,
 * about what a kilobyte of request costs.
 */
const SLICE_UNITS = 256;
/**
 * Extra work in a turn for each call that expired since the previous turn, and its maximum. Reading and ending a call
 * costs several units, so a busy process would otherwise spend most of its time on calls that it does not handle. There
 * is none for connections with much input: calls would wait ever longer in their sockets, until none is in time.
 */
const UNITS_PER_EXPIRY = 12;
const MAX_EXPIRY_UNITS = 2_048;
/** Calls that may cost more, such as batches and compressed messages, run last and one per turn. */
const COSTLY_UNITS = SLICE_UNITS;
/** Estimate of calls that run after all others, since even a small one may be costly. */
export const QUESTION_UNITS = Number.POSITIVE_INFINITY;
/** Work that a connection may have done whenever it is its turn; what a call takes beyond that, later turns pay. */
const TURN_UNITS = 16;
/** Maximum turns that a connection owes; costly calls run one per turn anyway. */
const MAX_TURNS_OWED = 64;
/** Weight of the last turn in the moving average of the time per queued call. */
const NEWEST_TURN_WEIGHT = 0.2;
/** The cost of ending a call without handling it. */
export const EXPIRY_UNITS = 1 / 4;

/**
 * Bounds the work per turn of the event loop, so that neither a flood of requests nor a few costly ones delay other
 * callers. Connections take turns, and have equal shares of the work: one whose call took much passes on its next turns
 * (deficit round robin, Shreedhar and Varghese 1995). Within one, the call that expires first goes first. A call that has
 * expired is not handled. Under light load, calls run at once and the queue stays empty.
 *
 * @param late   counts calls that have expired
 * @param nowMs  a monotonic clock
 */
export function createCallQueue(late: Pick<LateCalls, 'size' | 'count'>, nowMs: Monotonic = monotonicMs) {
  const cheap = new FairQueue('waiting');
  const costly = new FairQueue('waitingCostly');
  /** Run last, so that they do not delay costly calls. */
  const questions = new Fifo<PendingCall>();
  let unitsLeft = SLICE_UNITS;
  let expired = 0;
  const pace = new Pace();
  let turn: NodeJS.Immediate | undefined;
  let isClosed = false;

  const length = (): number => cheap.length + costly.length + questions.length;
  const handle = (call: PendingCall): void => {
    pace.taken++;
    const [atMs, unitsBefore] = [nowMs(), unitsLeft];
    const hasExpired = isLate(call, atMs);
    if (hasExpired) expired++;
    const units = call.run(atMs, hasExpired); // which may call `spend`
    unitsLeft -= units;
    call.connection.waiting?.owe(unitsBefore - unitsLeft);
  };
  const beginTurn = (): void => {
    turn = undefined;
    unitsLeft = SLICE_UNITS + Math.min(expired * UNITS_PER_EXPIRY, MAX_EXPIRY_UNITS);
    expired = 0;
    pace.begin(nowMs());
    if (length() + late.size === 0) return;
    for (let call = cheap.take(); call; call = unitsLeft > 0 ? cheap.take() : undefined) handle(call);
    const last = costly.length > 0 ? costly : questions;
    for (let call = last.take(); call; call = isLate(last.next, nowMs()) ? last.take() : undefined) handle(call);
    late.count();
    if (cheap.length === 0) pace.taken = 0; // the time to the next turn does not measure queued calls
    awaitTurn();
  };
  const awaitTurn = (): void => {
    if (!isClosed) turn ??= setImmediate(beginTurn);
  };

  return {
    get length(): number {
      return length();
    },
    /** Whether more calls are queued than fit in one turn. */
    get isBehind(): boolean {
      return cheap.length >= SLICE_UNITS;
    },
    /**
     * Whether a call may run immediately, because no call is ahead of it and this turn has work left.
     *
     * @param estimate  upper bound for the call's work, in units
     */
    mayRun(estimate: number): boolean {
      if (unitsLeft <= 0 || cheap.length > 0) return false;
      return estimate <= COSTLY_UNITS || (costly.length === 0 && (estimate < QUESTION_UNITS || questions.length === 0));
    },
    /** Whether a call queued now would run before it expires; one that would not is counted as expired. */
    canWait({ connection, expiresAtMs }: Pick<PendingCall, 'connection' | 'expiresAtMs'>): boolean {
      const isInTime = cheap.callsBefore(connection) * pace.msPerCall <= expiresAtMs - nowMs();
      if (!isInTime && !connection.hasMuchInput) expired++;
      return isInTime;
    },
    /** Records the work of a call that ran without being queued, or further work of a running call. */
    spend(units: number): void {
      unitsLeft -= units;
      awaitTurn();
    },
    /** @param estimate  upper bound for the call's work, by which costly calls run after cheap ones */
    add(call: PendingCall, estimate: number): void {
      (estimate <= COSTLY_UNITS ? cheap : estimate < QUESTION_UNITS ? costly : questions).add(call);
      awaitTurn();
    },
    close(): void {
      isClosed = true;
      clearImmediate(turn);
    },
  };
}

/** The rate at which queued calls are taken. */
class Pace {
  /** Moving average of the time between turns, including reading, per call taken in the first of them. */
  msPerCall = 0;
  /** Calls taken in this turn. */
  taken = 0;
  #turnAtMs = 0;

  begin(atMs: number): void {
    if (this.taken > 0) this.msPerCall += ((atMs - this.#turnAtMs) / this.taken - this.msPerCall) * NEWEST_TURN_WEIGHT;
    this.taken = 0;
    this.#turnAtMs = atMs;
  }
}

/** Calls of several connections, which take turns. */
class FairQueue {
  length = 0;
  readonly #key: 'waiting' | 'waitingCostly';
  readonly #turns = new Fifo<WaitingCalls>();

  constructor(key: 'waiting' | 'waitingCostly') {
    this.#key = key;
  }

  /** The call that `take` returns if no connection owes turns. */
  get next(): PendingCall | undefined {
    return this.#turns.next?.next;
  }

  add(call: PendingCall): void {
    const { connection } = call;
    const calls = connection[this.#key] ?? new WaitingCalls();
    connection[this.#key] = calls;
    if (calls.length === 0) this.#turns.add(calls);
    calls.add(call);
    this.length++;
  }

  /** Maximum number of calls that run before another call of this connection, if its queued ones take one turn each. */
  callsBefore({ [this.#key]: waiting }: CallSource): number {
    return Math.min(this.length, ((waiting?.turnsOwed ?? 0) + (waiting?.length ?? 0) + 1) * this.#turns.length);
  }

  take(): PendingCall | undefined {
    let calls = this.#turns.take();
    while (calls?.passesOn()) {
      this.#turns.add(calls);
      calls = this.#turns.take();
    }
    const call = calls?.take();
    if (!calls || !call) return undefined;
    this.length--;
    if (calls.length > 0) this.#turns.add(calls);
    return call;
  }
}

/** A FIFO queue whose operations take constant time. */
class Fifo<T> {
  protected items: T[] = [];
  protected first = 0;

  get length(): number {
    return this.items.length - this.first;
  }

  add(item: T): void {
    this.items.push(item);
  }

  take(): T | undefined {
    if (this.first === this.items.length) return undefined;
    const item = this.items[this.first++];
    if (this.first * 2 > this.items.length) {
      this.items = this.items.slice(this.first);
      this.first = 0;
    }
    return item;
  }

  /** The first item, if any. */
  get next(): T | undefined {
    return this.items[this.first];
  }
}

/** The queued calls of one connection, earliest due first, then in order of arrival. */
class WaitingCalls extends Fifo<PendingCall> {
  /** Turns that earlier calls of the connection have used up. */
  turnsOwed = 0;

  /** Records the work of a call that was taken. */
  owe(units: number): void {
    const owed = this.turnsOwed + Math.max(0, Math.ceil(units / TURN_UNITS) - 1);
    this.turnsOwed = Math.min(owed, MAX_TURNS_OWED);
  }

  /** Whether this turn belongs to an earlier call. */
  passesOn(): boolean {
    if (this.turnsOwed === 0) return false;
    this.turnsOwed--;
    return true;
  }

  /** Appends in constant time when the call is due last, as most are. */
  override add(call: PendingCall): void {
    const calls = this.items;
    let [low, high] = [this.first, calls.length];
    if (low === high || !isBefore(call, calls[high - 1])) return super.add(call);
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isBefore(call, calls[middle])) high = middle;
      else low = middle + 1;
    }
    calls.splice(low, 0, call);
  }
}

const isLate = (call: PendingCall | undefined, atMs: number): boolean => call !== undefined && atMs >= call.expiresAtMs;

const isBefore = (call: PendingCall, other: PendingCall | undefined): boolean =>
  other !== undefined && call.dueAtMs < other.dueAtMs;
