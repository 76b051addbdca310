/** The interval at which the first in a queue tries again, since other instances and proxies release slots, too. */
const POLL_MS = 50;
/** Maximum number of waiting callers; further ones are answered immediately. */
const MAX_WAITING = 10_000;

/** A caller's request for slots. `take` may be called again after it has succeeded. */
interface SlotTurn<A> {
  /** The counters of the slots: callers with the same counters wait for one another. */
  readonly keys: readonly string[];
  readonly maxDelayMs: number;
  readonly take: () => Promise<A>;
  readonly isTaken: (answer: A) => boolean;
  /** Releases slots that were taken for a caller that has been answered otherwise, or has gone. */
  readonly drop: () => Promise<void>;
  /** Calls the listener once if the caller gives up, or immediately if it has already. */
  readonly onGone: (listener: () => void) => void;
}

/** The caller gave up before it was answered. */
export class CallerGone extends Error {
  override readonly name = 'CallerGone';

  constructor() {
    super('the caller cancelled');
  }
}

/** A waiting caller; as a `Try`, its last attempt, when its time is over. */
interface Waiter<A> extends Try {
  readonly turn: SlotTurn<A>;
  readonly queue: Queue<A>;
  readonly resolve: (answer: A) => void;
  readonly reject: (cause: unknown) => void;
  timer: NodeJS.Timeout | undefined;
  /** Outcome; undefined while it waits. */
  outcome: 'taken' | 'not_taken' | undefined;
}

/** Callers that wait for the same slots; as a `Try`, an attempt for the first of them. */
interface Queue<A> extends Try {
  readonly name: string;
  readonly keys: ReadonlySet<string>;
  /** The callers not answered yet. */
  readonly waiters: Set<Waiter<A>>;
  /** The pause between two attempts. */
  pause: NodeJS.Timeout | undefined;
  isTrying: boolean;
  /** Slots may have become free during the attempt. */
  isWoken: boolean;
}

/**
 * Callers that wait for slots. Those that wait for the same slots form a queue, and only the first in a queue tries.
 * The number of counters that all queues together query in a period is bounded.
 */
export class SlotQueues<A> {
  readonly #queues = new Map<string, Queue<A>>();
  readonly #queuesByKey = new Map<string, Set<Queue<A>>>();
  readonly #turns = new TryTurns();
  #waiting = 0;

  /** The number of waiting callers. */
  get size(): number {
    return this.#waiting;
  }

  /**
   * Takes slots, or waits for them.
   *
   * @throws CallerGone
   */
  async run(turn: SlotTurn<A>): Promise<A> {
    let isGone = false;
    let leave = (): void => {
      isGone = true;
    };
    turn.onGone(() => leave());
    const name = turn.keys.join('\n');
    if (!isGone && (!this.#queues.has(name) || this.#waiting >= MAX_WAITING)) {
      const answer = await turn.take();
      const isTaken = turn.isTaken(answer);
      if (!isGone && (isTaken || this.#waiting >= MAX_WAITING)) return answer; // slots of a caller that has gone expire: its id may have held them before this call
    }
    if (isGone) throw new CallerGone();
    return new Promise((resolve, reject) => {
      const waiter = this.#add(name, turn, resolve, reject);
      leave = () => {
        if (this.#settle(waiter, 'not_taken')) reject(new CallerGone());
      };
    });
  }

  /** Wakes callers that wait for these counters, whose slots may have become free. */
  wake(keys: readonly string[]): void {
    const woken = new Set(keys.flatMap((key) => [...(this.#queuesByKey.get(key) ?? [])]));
    for (const queue of woken) this.#wake(queue);
  }

  #wake(queue: Queue<A>): void {
    clearTimeout(queue.pause);
    if (queue.isTrying) queue.isWoken = true;
    else this.#turns.add(queue, 'woken');
  }

  #add(name: string, turn: SlotTurn<A>, resolve: (answer: A) => void, reject: (cause: unknown) => void): Waiter<A> {
    const queue = this.#queues.get(name) ?? this.#open(name, turn.keys);
    const waiter: Waiter<A> = {
      turn,
      queue,
      resolve,
      reject,
      outcome: undefined,
      counters: turn.keys.length,
      begin: () => void this.#try(waiter, true),
      timer: setTimeout(() => this.#turns.add(waiter, 'last'), turn.maxDelayMs).unref(), // its connection keeps the process alive
    };
    queue.waiters.add(waiter);
    this.#waiting++;
    return waiter;
  }

  #open(name: string, keys: readonly string[]): Queue<A> {
    const queue: Queue<A> = {
      name,
      keys: new Set(keys),
      counters: keys.length,
      waiters: new Set(),
      isTrying: false,
      isWoken: false,
      begin: () => void this.#tryFirst(queue),
      pause: undefined,
    };
    this.#queues.set(name, queue);
    for (const key of queue.keys) {
      const known = this.#queuesByKey.get(key);
      if (known) known.add(queue);
      else this.#queuesByKey.set(key, new Set([queue]));
    }
    this.#pause(queue);
    return queue;
  }

  #pause(queue: Queue<A>): void {
    queue.pause = setTimeout(() => this.#turns.add(queue, 'poll'), POLL_MS).unref();
  }

  /** Closes a queue whose last caller has left. */
  #close(queue: Queue<A>): void {
    clearTimeout(queue.pause);
    this.#turns.drop(queue);
    this.#queues.delete(queue.name);
    for (const key of queue.keys) {
      const known = this.#queuesByKey.get(key);
      known?.delete(queue);
      if (known?.size === 0) this.#queuesByKey.delete(key);
    }
  }

  async #tryFirst(queue: Queue<A>): Promise<void> {
    const [first] = queue.waiters;
    if (!first) return;
    queue.isTrying = true;
    queue.isWoken = false;
    await this.#try(first, false);
    queue.isTrying = false;
    if (queue.waiters.size === 0) return; // it is closed
    if (first.outcome !== undefined || queue.isWoken) this.#turns.add(queue, 'woken');
    else this.#pause(queue); // the others wait for the first
  }

  /** @param isLast  answers even if nothing could be taken */
  async #try(waiter: Waiter<A>, isLast: boolean): Promise<void> {
    const { turn, resolve, reject } = waiter;
    try {
      const answer = await turn.take();
      const isTaken = turn.isTaken(answer);
      if (waiter.outcome === 'not_taken' && isTaken) await turn.drop();
      else if ((isTaken || isLast) && this.#settle(waiter, isTaken ? 'taken' : 'not_taken')) resolve(answer);
    } catch (cause) {
      if (this.#settle(waiter, 'not_taken')) reject(cause);
    }
  }

  /** Settles a caller once. @returns whether it had not been settled before */
  #settle(waiter: Waiter<A>, outcome: 'taken' | 'not_taken'): boolean {
    if (waiter.outcome !== undefined) return false;
    const { queue } = waiter;
    waiter.outcome = outcome;
    clearTimeout(waiter.timer);
    this.#turns.drop(waiter);
    this.#waiting--;
    queue.waiters.delete(waiter);
    if (queue.waiters.size === 0) this.#close(queue);
    return true;
  }
}

/** An attempt to take slots that waits for its turn. */
interface Try {
  /** The number of counters that it queries. */
  readonly counters: number;
  begin(): void;
}

/**
 * Reasons for a try, in order of urgency.
 *
 * last   its caller has waited for as long as it may
 * woken  slots may have become free
 * poll   other instances may have released some
 */
const reasons = ['last', 'woken', 'poll'] as const;
type Reason = (typeof reasons)[number];

const PERIOD_MS = 10;
/** Maximum number of counters queried in a period, about a millisecond of work if they are in memory. */
const COUNTERS_A_PERIOD = 256;

/**
 * Bounds the number of counters queried in a period for waiting callers. Tries beyond the bound wait, in order; one
 * poll goes first in each period, so that polls never starve.
 */
class TryTurns {
  readonly #waiting: Readonly<Record<Reason, Set<Try>>> = { last: new Set(), woken: new Set(), poll: new Set() };
  #countersLeft = COUNTERS_A_PERIOD;
  #isPeriodOpen = false;
  #isServing = false;

  add(one: Try, reason: Reason): void {
    const { woken, poll } = this.#waiting;
    if (reason === 'poll' && woken.has(one)) return;
    if (reason === 'woken') poll.delete(one);
    this.#waiting[reason].add(one);
    if (this.#isServing || this.#countersLeft <= 0) return;
    this.#isServing = true;
    queueMicrotask(this.#serve); // once for all tries of this turn
  }

  drop(one: Try): void {
    for (const reason of reasons) this.#waiting[reason].delete(one);
  }

  readonly #serve = (): void => {
    this.#isServing = false;
    for (const reason of reasons)
      for (const one of this.#waiting[reason]) {
        if (this.#countersLeft <= 0) return;
        this.#begin(one, reason);
      }
  };

  #begin(one: Try, reason: Reason): void {
    this.#waiting[reason].delete(one);
    this.#countersLeft -= one.counters;
    this.#beginPeriod();
    one.begin();
  }

  /** The timer starts in the next turn of the event loop: in a late process, many periods could end in one turn. */
  #beginPeriod(): void {
    if (this.#isPeriodOpen) return;
    this.#isPeriodOpen = true;
    setImmediate(() => setTimeout(this.#renew, PERIOD_MS).unref()); // the open connection keeps the process alive
  }

  readonly #renew = (): void => {
    this.#isPeriodOpen = false;
    this.#countersLeft = COUNTERS_A_PERIOD;
    const [poll] = this.#waiting.poll;
    if (poll) this.#begin(poll, 'poll');
    this.#serve();
  };
}
