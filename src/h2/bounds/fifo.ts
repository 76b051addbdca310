/** A FIFO queue whose operations take constant time. */
interface Fifo<T> {
  readonly length: number;
  add(item: T): void;
  take(): T | undefined;
  /** Takes the first item if it meets the condition. */
  takeIf(condition: (item: T) => boolean): T | undefined;
}

export function createFifo<T>(): Fifo<T> {
  let items: T[] = [];
  let first = 0;
  return {
    get length() {
      return items.length - first;
    },
    add(item) {
      items.push(item);
    },
    take() {
      if (first === items.length) return undefined;
      const item = items[first++];
      if (first * 2 > items.length) {
        items = items.slice(first);
        first = 0;
      }
      return item;
    },
    takeIf(condition) {
      const item = items[first];
      return item !== undefined && condition(item) ? this.take() : undefined;
    },
  };
}
