import { longestState } from '../holds/limits.ts';
import type { Operation } from './backend.ts';
import type { CounterKey } from './key.ts';

/** The work of an ordinary script call. */
export const MAX_CALL_WORK = 1_024;
/** Maximum work of a request, about 12 ms of Redis's time, in which it serves no other. */
export const MAX_REQUEST_WORK = 4_096;

/** Numbers of a state that take Redis as long to read and write as a plain spend. */
const NUMBERS_READ = 25;
/** Numbers of a state that take a step as long as a plain spend, once they have been read. */
const NUMBERS_STEPPED = 512;

/** The part of an operation that its work depends on. */
type WorkOperation = Pick<Operation, 'key' | 'limit' | 'holder'>;

/** Work of a step on the longest state of the limit, besides reading it. */
export const stepWork = (operation: WorkOperation): number =>
  longestState(operation.limit, operation) / NUMBERS_STEPPED;

/** Maximum work of a request's operations, in spends on short states; each long state is read and written once. */
export class StoreWork {
  #sum = 0;
  #read: Set<CounterKey> | undefined;

  get sum(): number {
    return this.#sum;
  }

  add(operation: WorkOperation): void {
    this.#sum++;
    const numbers = longestState(operation.limit, operation);
    if (numbers === 0) return;
    this.#sum += stepWork(operation);
    this.#read ??= new Set();
    if (this.#read.has(operation.key)) return;
    this.#read.add(operation.key);
    this.#sum += numbers / NUMBERS_READ;
  }
}

/** Maximum work of one request's operations. */
export function measureWork(operations: readonly WorkOperation[]): number {
  const work = new StoreWork();
  for (const operation of operations) work.add(operation);
  return work.sum;
}
