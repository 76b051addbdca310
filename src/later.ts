/** Takes what becomes of a `Later`. Must not throw. */
interface Listener<T> {
  take(value: T): void;
  fail(cause: unknown): void;
}

/**
 * A value that is not there yet. Unlike a promise, it calls its listeners before `resolve` returns: a step costs
 * neither a microtask nor the search for a `then` on every value. `await` works as on a promise.
 */
export class Later<T> implements PromiseLike<T> {
  #state: 'pending' | 'resolved' | 'rejected' = 'pending';
  /** The value, or the cause of the failure. */
  #outcome: unknown;
  #listener: Listener<T> | undefined;
  #others: Listener<T>[] | undefined;

  get isSettled(): boolean {
    return this.#state !== 'pending';
  }

  /** Does nothing if it is settled. */
  resolve(value: T): void {
    this.#settle('resolved', value);
  }

  /** Does nothing if it is settled. */
  reject(cause: unknown): void {
    this.#settle('rejected', cause);
  }

  /**
   * What `step` makes of the value, or `onFailure` of the cause of a failure; absent: the failure is passed on. What
   * either throws is the cause of a failure.
   *
   * @param context  handed to both: functions that are made anew for each call are slower
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
    this.#listener = undefined; // what is settled may be kept for long
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

/** A value, or one that is not there yet. */
export type Eventual<T> = T | PromiseLike<T>;

export const isPending = <T extends object>(value: Eventual<T>): value is PromiseLike<T> => 'then' in value;

/**
 * What `step` makes of the value: at once if it is there, and else as soon as it is.
 *
 * @param context    as for `Later.map`
 * @param onFailure  of a value that was not there
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
