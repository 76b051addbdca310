interface Timer {
  readonly dueMs: number;
  readonly intervalMs: number | undefined;
  readonly run: () => void;
  unref(): Timer;
  ref(): Timer;
}

/** Runs the microtasks that are due; needs `--allow-natives-syntax`, and must not be called by one. */
const runMicrotasks = new Function('%PerformMicrotaskCheckpoint()') as () => void;

let current: Runtime | undefined;

/** Replaces the timers of this process by those of the world that was built last. */
function replaceTimers(): void {
  Object.assign(globalThis, {
    nextId: () => current?.nextId(),
    setTimeout: (run: () => void, delayMs?: number) => current?.set(run, delayMs),
    setInterval: (run: () => void, delayMs = 0) => current?.set(run, delayMs, delayMs),
    setImmediate: (run: () => void) => current?.immediate.push(run),
    clearTimeout: (timer: Timer | undefined) => current?.clear(timer),
    clearInterval: (timer: Timer | undefined) => current?.clear(timer),
  });
}

/** Time of one world: code that waits runs in steps, and repeats exactly. */
export class Runtime {
  nowMs: number;
  immediate: (() => void)[] = [];
  #timers: Timer[] = [];
  #ids = 0;

  constructor(startMs: number) {
    this.nowMs = startMs;
    if (!current) replaceTimers();
    current = this;
  }

  nextId(): string {
    return `id${++this.#ids}`;
  }

  set(run: () => void, delayMs = 0, intervalMs?: number): Timer {
    const timer: Timer = {
      dueMs: this.nowMs + Math.max(delayMs, 1),
      intervalMs,
      run,
      unref: () => timer,
      ref: () => timer,
    };
    this.#timers.push(timer);
    return timer;
  }

  clear(timer: Timer | undefined): void {
    const at = timer ? this.#timers.indexOf(timer) : -1;
    if (at >= 0) this.#timers.splice(at, 1);
  }

  /** Runs everything that needs no time. */
  drain(): void {
    do {
      runMicrotasks();
      const due = this.immediate;
      this.immediate = [];
      for (const run of due) {
        run();
        runMicrotasks();
      }
    } while (this.immediate.length > 0);
  }

  /** Lets time pass, with the timers that are due. */
  pass(ms: number): void {
    const endMs = this.nowMs + ms;
    for (;;) {
      const next = this.#timers.reduce<Timer | undefined>(
        (first, one) => (first && first.dueMs <= one.dueMs ? first : one),
        undefined,
      );
      if (!next || next.dueMs > endMs) break;
      this.nowMs = Math.max(this.nowMs, next.dueMs);
      this.#timers = this.#timers.filter((one) => one !== next);
      const { intervalMs } = next;
      if (intervalMs !== undefined) this.#timers.push(Object.assign(next, { dueMs: next.dueMs + intervalMs }));
      next.run();
      this.drain();
    }
    this.nowMs = endMs;
    this.drain();
  }

  /** When the timers are due. */
  get due(): readonly number[] {
    return this.#timers.map(({ dueMs }) => dueMs);
  }
}
