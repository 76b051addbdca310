import type { Clock } from '../../src/base/clock.ts';

/** A clock that a test moves, forward or back; otherwise it stands still. */
export interface FakeClock extends Clock {
  advance(ms: number): void;
  set(nowMs: number): void;
}

/** @param nowMs  the initial time; the default is 20 s into a minute and 800 s into an hour */
export const fakeClock = (nowMs = 1_700_000_000_000): FakeClock =>
  Object.assign(() => nowMs, {
    advance: (ms: number) => {
      nowMs += ms;
    },
    set: (ms: number) => {
      nowMs = ms;
    },
  });
