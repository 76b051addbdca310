import { type Call, type Clocks, earliest, latest } from './call.ts';
import type { Limit } from './limits.ts';

/** The calls of one aligned window. */
export interface Window {
  /** Windows are numbered from 1970. */
  readonly number: number;
  /** Its end, in the history's time. */
  readonly endMs: number;
  /** Calls that can be in no other window. */
  readonly certain: Call[];
  /** Calls that may be in this one or a neighbour. */
  readonly possible: Call[];
}

/** The windows of calls, by their number. */
export function windowsOf(calls: readonly Call[], { windowMs }: Limit, clocks: Clocks): ReadonlyMap<number, Window> {
  const windows = new Map<number, Window>();
  const at = (ms: number): number => Math.floor((clocks.epochMs + ms) / windowMs);
  for (const call of calls) {
    const [first, last] = [at(earliest(call, clocks)), at(latest(call, clocks))];
    for (let number = first; number <= last; number++) {
      let window = windows.get(number);
      if (!window) {
        window = { number, endMs: (number + 1) * windowMs - clocks.epochMs, certain: [], possible: [] };
        windows.set(number, window);
      }
      window[first === last ? 'certain' : 'possible'].push(call);
    }
  }
  return windows;
}
