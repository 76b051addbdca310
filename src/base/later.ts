/** Receives the outcome of a `Later`. Must not throw. */
interface Listener<T> {
  take(value: T): void;
  fail(cause: unknown): void;
}

/**
 * A value that may arrive later. Unlike a promise, it calls its listeners before `resolve` returns, so that a step
 * costs neither a microtask nor a check for `then`. `await` works as with a promise.
 */
export class Later<T> implements PromiseLike<T> {
  #state: 'pending' | 'resolved' | 'rejected' = 'pending';
  #outcome: unknown;
  #listener: Listener<T> | undefined;
  #others: Listener<T>[] | undefined;

  get isSettled(): boolean {
    return this.#state !== 'pending';
  }

  /** Does nothing if already settled. */
  resolve(value: T): void {
    this.#settle('resolved', value);
  }

  /** Does nothing if already settled. */
  reject(cause: unknown): void {
    this.#settle('rejected', cause);
  }

  /**
   * The result of `step` for the value, or of `onFailure` for a failure, which is passed on without `onFailure`. If
   * either throws, the error becomes the failure.
   *
   * @param context  passed to both, since creating a function for each call is slower
   */
  map<R, C>(step: (value: T, context: C) => R, context: C, onFailure?: (cause: unknown, context: C) => R): Later<R> {
    const mapped = new Mapped(step, context, onFailure);
    this.#listen(mapped);
    return mapped;
  }

  // biome-ignore lint/suspicious/noThenProperty: for `await`
  then<R = T, F = never>(
    onValue?: ((value: T) => R | PromiseLike<R>) | null,
    onFailure?: ((cause: unknown) => F | PromiseLike<F>) | null,
  ): Promise<R | F> {
    return new Promise<T>((take, fail) => this.#listen({ take, fail })).then(onValue, onFailure);
  }

  #settle(state: 'resolved' | 'rejected', outcome: unknown): void {
    if (this.#state !== 'pending') return;
    this.#state = state;
    this.#outcome = outcome;
    const listener = this.#listener;
    const others = this.#others;
    this.#listener = undefined; // a settled value may be kept for a long time
    this.#others = undefined;
    if (listener) this.#deliver(listener);
    if (others) for (const other of others) this.#deliver(other);
  }

  #listen(listener: Listener<T>): void {
    if (this.#state !== 'pending') this.#deliver(listener);
    else if (!this.#listener) this.#listener = listener;
    else if (!this.#others) this.#others = [listener];
    else this.#others.push(listener);
  }

  #deliver(listener: Listener<T>): void {
    if (this.#state === 'resolved') listener.take(this.#outcome as T);
    else listener.fail(this.#outcome);
  }
}

class Mapped<T, R, C> extends Later<R> implements Listener<T> {
  readonly #step: (value: T, context: C) => R;
  readonly #context: C;
  readonly #onFailure: ((cause: unknown, context: C) => R) | undefined;

  constructor(
    step: (value: T, context: C) => R,
    context: C,
    onFailure: ((cause: unknown, context: C) => R) | undefined,
  ) {
    super();
    this.#step = step;
    this.#context = context;
    this.#onFailure = onFailure;
  }

  take(value: T): void {
    this.#resolveWith(this.#step, value);
  }

  fail(cause: unknown): void {
    if (this.#onFailure) this.#resolveWith(this.#onFailure, cause);
    else this.reject(cause);
  }

  #resolveWith<V>(step: (value: V, context: C) => R, value: V): void {
    let result: R;
    try {
      result = step(value, this.#context);
    } catch (cause) {
      return this.reject(cause);
    }
    this.resolve(result);
  }
}

/** A value, or a promise of one. */
export type Eventual<T> = T | PromiseLike<T>;

export const isPending = <T extends object>(value: Eventual<T>): value is PromiseLike<T> => 'then' in value;

/**
 * The result of `step` for the value, immediately if the value is available.
 *
 * @param context    as for `Later.map`
 * @param onFailure  for a pending value that fails
 */
export function after<T extends object, R, C = undefined>(
  value: PromiseLike<T>,
  step: (value: T, context: C) => R,
  context: C,
  onFailure?: (cause: unknown, context: C) => R,
): PromiseLike<R>;
export function after<T extends object, R, C = undefined>(
  value: Eventual<T>,
  step: (value: T, context: C) => R,
  context?: C,
): R | PromiseLike<R>;
export function after<T extends object, R, C>(
  value: Eventual<T>,
  step: (value: T, context: C) => R,
  context: C,
  onFailure?: (cause: unknown, context: C) => R,
): R | PromiseLike<R> {
  if (value instanceof Later) return value.map(step, context, onFailure);
  if (!isPending(value)) return step(value, context);
  return value.then((known) => step(known, context), onFailure && ((cause) => onFailure(cause, context)));
}

/**
 * Shares one run between concurrent calls. Calls that arrive during one share the next, so that its result contains
 * everything that was done before it was asked for.
 */
export function shareRuns<T>(run: () => Promise<T>): () => Promise<T> {
  let running: Promise<unknown> = Promise.resolve();
  let next: Promise<T> | undefined;
  const begin = (): Promise<T> => {
    next = undefined;
    const begun = run();
    running = begun;
    return begun;
  };
  return () => {
    next ??= running.then(begin, begin);
    return next;
  };
}
