/** A stored value, and the number that changes with it. */
export interface Item {
  readonly value: Buffer;
  readonly cas: string;
}

/** A store with compare and swap. */
export interface SwapStore {
  get(key: string): Promise<Item | undefined>;
  /** Stores the value if it has not changed since it was read. */
  cas(key: string, next: NewItem, cas: string): Promise<'STORED' | 'EXISTS' | 'NOT_FOUND'>;
  /** Stores a value if there is none. */
  add(key: string, next: NewItem): Promise<'STORED' | 'NOT_STORED'>;
}

/** A value to be stored. */
export interface NewItem {
  readonly value: Buffer;
  readonly exptime: number;
}

/** The result of a step. */
interface Stepped<T> {
  readonly result: T;
  /** The new value; absent to leave it unchanged. */
  readonly next?: NewItem;
}

/** Maximum number of attempts to change a value that others keep changing. */
const MAX_TRIES = 100;

/**
 * Reads a value, steps it, and swaps it for the result; repeats with the current value if another writer was faster.
 *
 * @param step  gets undefined if there is no value; called again for each attempt, and only the last result is used
 * @throws Error  others changed the value at each attempt
 */
export async function swap<T>(
  store: SwapStore,
  key: string,
  step: (value: Buffer | undefined) => Stepped<T> | Promise<Stepped<T>>,
): Promise<T> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const item = await store.get(key);
    const { result, next } = await step(item?.value);
    if (!next) return result;
    const stored = await (item ? store.cas(key, next, item.cas) : store.add(key, next));
    if (stored === 'STORED') return result;
  }
  throw new Error(`other writers changed the counter ${MAX_TRIES} times in a row`);
}
