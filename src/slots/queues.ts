/** How often the first of a queue tries again: other instances and proxies release slots, too. */
const POLL_MS = 50;
/** Callers that may wait at once; further ones are answered at once. */
const MAX_WAITING = 10_000;

/** A caller's request for slots. `take` may be called again after it has succeeded. */
export interface SlotTurn<A> {
  /** The counters of the slots: callers with the same ones wait for one another. */
  readonly keys: readonly string[];
  readonly maxDelayMs: number;
  readonly take: () => Promise<A>;
  readonly isTaken: (answer: A) => boolean;
  /** Gives back what was taken for a caller that has been answered otherwise, or has gone. */
  readonly drop: () => Promise<void>;
  /** Calls the listener once if the caller gives up. */
  readonly onGone: (listener: () => void) => void;
}

/** The caller gave up before it was answered. */
export class CallerGone extends Error {
  override readonly name = 'CallerGone';
}

interface Waiter<A> {
  readonly turn: SlotTurn<A>;
  readonly resolve: (answer: A) => void;
  readonly reject: (cause: unknown) => void;
  timer: NodeJS.Timeout | undefined;
  /** What it was answered; undefined: nothing yet. */
  outcome: 'taken' | 'not_taken' | undefined;
}

interface Queue<A> {
  readonly keys: ReadonlySet<string>;
  readonly waiters: Set<Waiter<A>>;
  /** Ends the pause between two tries. */
  wake: () => void;
}

/** Callers that wait for slots, those for the same ones in their order: only the first of a queue tries. */
export class SlotQueues<A> {
  readonly #queues = new Map<string, Queue<A>>();
  #waiting = 0;

  /** Callers that wait. */
  get size(): number {
    return this.#waiting;
  }

  /**
   * Takes slots, or waits for them.
   *
   * @throws CallerGone
   */
  async run(turn: SlotTurn<A>): Promise<A> {
    const name = turn.keys.join('\n');
    if (!this.#queues.has(name) || this.#waiting >= MAX_WAITING) {
      const answer = await turn.take();
      if (turn.isTaken(answer) || this.#waiting >= MAX_WAITING) return answer;
    }
    return new Promise((resolve, reject) =>
      this.#add(name, { turn, resolve, reject, timer: undefined, outcome: undefined }),
    );
  }

  /** Slots of these counters may be free. */
  wake(keys: readonly string[]): void {
    for (const queue of this.#queues.values()) if (keys.some((key) => queue.keys.has(key))) queue.wake();
  }

  #add(name: string, waiter: Waiter<A>): void {
    const { turn } = waiter;
    this.#waiting++;
    waiter.timer = setTimeout(() => void this.#try(waiter, true), turn.maxDelayMs).unref(); // the open connection keeps the process alive
    turn.onGone(() => {
      if (this.#settle(waiter, 'not_taken')) waiter.reject(new CallerGone('the caller cancelled'));
    });
    const known = this.#queues.get(name);
    if (known) {
      known.waiters.add(waiter);
      return;
    }
    const queue: Queue<A> = { keys: new Set(turn.keys), waiters: new Set([waiter]), wake: () => {} };
    this.#queues.set(name, queue);
    void this.#work(name, queue);
  }

  async #work(name: string, queue: Queue<A>): Promise<void> {
    for (;;) {
      await pause(queue);
      for (const waiter of queue.waiters) {
        if (waiter.outcome === undefined) await this.#try(waiter, false);
        if (waiter.outcome === undefined) break; // the others wait for it
        queue.waiters.delete(waiter);
      }
      if (queue.waiters.size > 0) continue;
      this.#queues.delete(name);
      return;
    }
  }

  /** @param isLast  answers even where nothing could be taken */
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

  /** Whether it had not been settled before. */
  #settle(waiter: Waiter<A>, outcome: 'taken' | 'not_taken'): boolean {
    if (waiter.outcome !== undefined) return false;
    waiter.outcome = outcome;
    clearTimeout(waiter.timer);
    this.#waiting--;
    return true;
  }
}

/** Until the next try of a queue. */
const pause = <A>(queue: Queue<A>): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, POLL_MS).unref();
    queue.wake = () => {
      clearTimeout(timer);
      resolve();
    };
  });
