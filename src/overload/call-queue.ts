/** A call whose request has arrived completely, and is not decoded yet. */
export interface PendingCall {
  /** When its request was complete, on the monotonic clock. */
  readonly completeAtMs: number;
  /** Decodes and handles it. @returns the work it took, in the units of `SLICE_UNITS` */
  run(): number;
  /** Answers that there is too much to do. */
  refuse(): void;
}

/** Calls that arrived completely, and wait until this process can decode them. */
export interface CallQueue {
  /** Calls in the queue. */
  readonly length: number;
  /** More calls wait than a turn takes, and the first of them has waited for too long: so would a new one. */
  readonly isBehind: boolean;
  /**
   * Whether a call may run at once: no call waits that goes first, and this turn's slice has room.
   *
   * @param estimate  the most units that the call may take
   */
  mayRun(estimate: number): boolean;
  /** A call ran at once, and took so much work. */
  spend(units: number): void;
  /** @param estimate  the most work that the call may take: costly calls wait for the others */
  add(call: PendingCall, estimate: number): void;
  close(): void;
}

/**
 * The work of one turn of the event loop. A unit is about a descriptor, or a kilobyte of request: three to seven microseconds. Between two
 * slices the process reads its sockets and sends answers.
 */
export const SLICE_UNITS = 256;
/** A call that may take more waits for all others, and one of them runs in a turn: compressed messages that may unpack to megabytes. */
const COSTLY_UNITS = 1_024;
/** Refusing a call that waited, or dropping one whose caller has gone, is work, too. */
export const REFUSAL_UNITS = 1 / 4;

/**
 * Bounds the work of one turn of the event loop, so that neither a flood of requests nor a few costly ones delay everybody else. While there is little
 * to do, calls run at once and the queue stays empty.
 *
 * @param maxWaitMs  a call that has waited longer is refused undecoded: it would be answered too late. Infinity: never
 * @param nowMs      any clock that never runs backwards
 */
export function createCallQueue(maxWaitMs: number, nowMs: () => number = () => performance.now()): CallQueue {
  const cheap = createFifo<PendingCall>();
  const costly = createFifo<PendingCall>();
  let unitsLeft = SLICE_UNITS;
  let turn: NodeJS.Immediate | undefined;
  let isClosed = false;

  const isStale = (call: PendingCall, atMs: number): boolean => atMs - call.completeAtMs > maxWaitMs;
  const handle = (call: PendingCall, atMs: number): void => {
    if (!isStale(call, atMs)) unitsLeft -= call.run();
    else {
      call.refuse();
      unitsLeft -= REFUSAL_UNITS;
    }
  };
  const beginTurn = (): void => {
    turn = undefined;
    unitsLeft = SLICE_UNITS;
    if (cheap.length === 0 && costly.length === 0) return;
    const atMs = nowMs();
    for (let call = cheap.take(); call; call = unitsLeft > 0 ? cheap.take() : undefined) handle(call, atMs);
    for (let call = costly.take(); call; call = costly.takeIf((other) => isStale(other, atMs))) handle(call, atMs);
    awaitTurn();
  };
  const awaitTurn = (): void => {
    if (!isClosed) turn ??= setImmediate(beginTurn);
  };

  return {
    get length() {
      return cheap.length + costly.length;
    },
    get isBehind() {
      if (cheap.length < SLICE_UNITS) return false;
      const first = cheap.first();
      return first !== undefined && isStale(first, nowMs());
    },
    mayRun: (estimate) => unitsLeft > 0 && cheap.length === 0 && (estimate <= COSTLY_UNITS || costly.length === 0),
    spend(units) {
      unitsLeft -= units;
      awaitTurn();
    },
    add(call, estimate) {
      (estimate > COSTLY_UNITS ? costly : cheap).add(call);
      awaitTurn();
    },
    close() {
      isClosed = true;
      clearImmediate(turn);
    },
  };
}

/** First in, first out; adding and taking cost the same however long it is. */
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
    /** Takes the first item where it fulfils the condition. */
    takeIf(condition: (item: T) => boolean): T | undefined {
      const item = items[first];
      return item !== undefined && condition(item) ? this.take() : undefined;
    },
  };
}
