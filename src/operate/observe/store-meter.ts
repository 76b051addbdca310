import type { Operation } from '../../engine/backends/backend.ts';
import type { Stopwatch } from '../../engine/backends/lateness.ts';
import type { StoreMeter } from '../../engine/ledger/ledger.ts';

/** One store call in this many is measured, on average. */
export const MEASURED_ONE_IN = 16;

/** Receives a measured call, which stands for this many. */
type NoteCall = (operations: readonly Operation[], elapsedMs: number, calls: number) => void;

/** Measures a random sample of the calls to the store. @param random  returns 0 to below 1 */
export function createStoreMeter(note: NoteCall, stopwatch: Stopwatch, random = Math.random): StoreMeter {
  const skips = (): number => Math.floor(random() * (2 * MEASURED_ONE_IN - 1));
  let left = skips();
  return {
    begin() {
      if (left-- > 0) return undefined;
      left = skips();
      return stopwatch();
    },
    end: (operations, stop) => note(operations, stop(), MEASURED_ONE_IN),
  };
}
