import type { StartTimer } from '../../src/parts/reflection/reflection.ts';

/** Timers that run only when a test advances their time. */
export interface FakeTimers {
  readonly start: StartTimer;
  advance(ms: number): void;
  /** The number of active timers. */
  readonly count: () => number;
}

export function fakeTimers(): FakeTimers {
  const left = new Map<() => void, number>();
  return {
    start(ms, onElapsed) {
      left.set(onElapsed, ms);
      return {
        restart: () => void left.set(onElapsed, ms),
        stop: () => void left.delete(onElapsed),
      };
    },
    advance(ms) {
      for (const [onElapsed, leftMs] of [...left]) {
        left.set(onElapsed, leftMs - ms);
        if (leftMs > ms) continue;
        left.delete(onElapsed);
        onElapsed();
      }
    },
    count: () => left.size,
  };
}
