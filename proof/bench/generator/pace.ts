/** A connection of a load. */
export interface Line {
  /** Begins a call. It is sent by the next `flush`, or earlier. */
  call(dueMs: number): void;
  flush(): void;
}

export type Pace =
  /** Every connection has this many calls in flight; each answer starts the next call. */
  | { readonly kind: 'closed'; readonly callsInFlight: number; readonly end: End }
  /** Calls begin at this rate on each connection in turn, without waiting for earlier ones. */
  | {
      readonly kind: 'open';
      readonly callsPerSecond: number;
      readonly end: { readonly elapsedMs: number };
      /** Each call begins when it is due, which takes a whole core; absent: those of a millisecond begin together. */
      readonly isEven?: boolean;
    };

/** The condition after which no further call begins. */
type End = { readonly calls: number } | { readonly elapsedMs: number };

/** Begins the calls of one load. Times in milliseconds are from `performance.now()`. */
interface Pacer {
  begin(nowMs: number): void;
  /** @returns  whether that was the last answer */
  answered(connection: Line, nowMs: number): boolean;
  /** Begins no further calls. */
  stop(): void;
}

/** The resolution of timers: a call that is late by no more counts as begun when it is sent. */
const TIMER_MS = 2;

export const createPacer = (pace: Pace, connections: readonly Line[]): Pacer =>
  pace.kind === 'closed' ? closedLoop(pace, connections) : openLoop(pace, connections);

function closedLoop({ callsInFlight, end }: Extract<Pace, { kind: 'closed' }>, connections: readonly Line[]): Pacer {
  let callsLeft = 'calls' in end ? end.calls : Number.POSITIVE_INFINITY;
  let endMs = Number.POSITIVE_INFINITY;
  let inFlight = 0;
  const beginNext = (connection: Line, nowMs: number) => {
    if (callsLeft === 0 || nowMs >= endMs) return;
    callsLeft--;
    inFlight++;
    connection.call(nowMs);
  };
  return {
    begin(nowMs) {
      if ('elapsedMs' in end) endMs = nowMs + end.elapsedMs;
      for (const connection of connections) {
        for (let at = 0; at < callsInFlight; at++) beginNext(connection, nowMs);
        connection.flush();
      }
    },
    answered(connection, nowMs) {
      inFlight--;
      beginNext(connection, nowMs);
      return inFlight === 0;
    },
    stop() {
      callsLeft = 0;
    },
  };
}

/** Begins all calls that are due: about every millisecond, or in every turn of the event loop. */
function openLoop(
  { callsPerSecond, end, isEven = false }: Extract<Pace, { kind: 'open' }>,
  connections: readonly Line[],
): Pacer {
  const callsPerMs = callsPerSecond / 1000;
  const calls = Math.ceil(end.elapsedMs * callsPerMs);
  let begun = 0;
  let answers = 0;
  let timer: NodeJS.Timeout | undefined;
  let turn: NodeJS.Immediate | undefined;
  const beginDue = (startMs: number) => {
    const nowMs = performance.now();
    const due = Math.min(calls, Math.floor((nowMs - startMs) * callsPerMs));
    for (; begun < due; begun++) {
      const dueMs = startMs + begun / callsPerMs;
      const connection = connections[begun % connections.length];
      connection?.call(isEven || nowMs - dueMs > TIMER_MS ? dueMs : nowMs);
      if (isEven) connection?.flush();
    }
    if (!isEven) for (const connection of connections) connection.flush();
    if (begun === calls) return;
    if (isEven) turn = setImmediate(beginDue, startMs);
    else timer = setTimeout(beginDue, 1, startMs);
  };
  return {
    begin: beginDue,
    answered: () => ++answers === calls,
    stop() {
      clearTimeout(timer);
      clearImmediate(turn);
    },
  };
}
