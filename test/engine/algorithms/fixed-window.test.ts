import { fixedWindow } from '../../../src/engine/algorithms/fixed-window.ts';
import { type Decision, MAX_COUNT, NEVER_MS, type State, unitMs } from '../../../src/engine/algorithms/limit.ts';
import { fixedWindowOf } from '../../helpers/limits.ts';

/** The start of a minute. */
const START_MS = 28_333_333 * unitMs.MINUTE;

type Row = readonly [
  atMs: number, // after START_MS
  hits: number,
  code: Decision['code'],
  count: number, // the count afterwards
  remaining: number,
  resetMs: number,
  retryAfterMs: number,
];

const schedules: readonly { name: string; requestsPerMinute: number; rows: readonly Row[] }[] = [
  {
    name: 'spends hit by hit and starts again with the next window',
    requestsPerMinute: 3,
    rows: [
      [0, 1, 'OK', 1, 2, 60_000, 0],
      [20_000, 2, 'OK', 3, 0, 40_000, 0],
      [20_001, 1, 'OVER_LIMIT', 4, 0, 39_999, 39_999],
      [59_999, 1, 'OVER_LIMIT', 5, 0, 1, 1],
      [60_000, 1, 'OK', 1, 2, 60_000, 0],
    ],
  },
  {
    name: 'only looks at 0 hits: refused when the count is above the limit, not at it',
    requestsPerMinute: 2,
    rows: [
      [0, 0, 'OK', 0, 2, 60_000, 0],
      [0, 2, 'OK', 2, 0, 60_000, 0],
      [0, 0, 'OK', 2, 0, 60_000, 0],
      [0, 1, 'OVER_LIMIT', 3, 0, 60_000, 60_000],
      [10, 0, 'OVER_LIMIT', 3, 0, 59_990, 59_990],
      [60_000, 0, 'OK', 0, 2, 60_000, 0],
    ],
  },
  {
    name: 'gives back at negative hits, never below 0 spent',
    requestsPerMinute: 5,
    rows: [
      [0, 4, 'OK', 4, 1, 60_000, 0],
      [0, -1, 'OK', 3, 2, 60_000, 0],
      [0, 2, 'OK', 5, 0, 60_000, 0],
      [0, 4, 'OVER_LIMIT', 9, 0, 60_000, 60_000],
      [0, -2, 'OK', 7, 0, 60_000, 0], // accepted, although still above the limit
      [0, -100, 'OK', 0, 5, 60_000, 0],
      [0, 5, 'OK', 5, 0, 60_000, 0],
    ],
  },
  {
    name: 'keeps the later window when the clock steps back',
    requestsPerMinute: 5,
    rows: [
      [60_000, 3, 'OK', 3, 2, 60_000, 0],
      [59_000, 1, 'OK', 4, 1, 61_000, 0],
      [-600_000, 2, 'OVER_LIMIT', 6, 0, 720_000, 720_000],
      [119_999, 1, 'OVER_LIMIT', 7, 0, 1, 1],
      [120_000, 1, 'OK', 1, 4, 60_000, 0],
    ],
  },
  {
    name: 'of 0 lets nothing pass, ever',
    requestsPerMinute: 0,
    rows: [
      [0, 0, 'OK', 0, 0, 60_000, 0],
      [0, 1, 'OVER_LIMIT', 1, 0, 60_000, NEVER_MS],
      [0, 0, 'OVER_LIMIT', 1, 0, 60_000, 60_000],
      [60_000, 1, 'OVER_LIMIT', 1, 0, 60_000, NEVER_MS],
    ],
  },
  {
    name: 'stops counting at the largest exact integer',
    requestsPerMinute: 10,
    rows: [
      [0, MAX_COUNT - 1, 'OVER_LIMIT', MAX_COUNT - 1, 0, 60_000, NEVER_MS],
      [0, 1, 'OVER_LIMIT', MAX_COUNT, 0, 60_000, 60_000],
      [0, 1, 'OVER_LIMIT', MAX_COUNT, 0, 60_000, 60_000],
      [0, MAX_COUNT, 'OVER_LIMIT', MAX_COUNT, 0, 60_000, NEVER_MS],
      [0, -1, 'OK', MAX_COUNT - 1, 0, 60_000, 0],
      [0, 5 - MAX_COUNT, 'OK', 4, 6, 60_000, 0],
      [0, -MAX_COUNT, 'OK', 0, 10, 60_000, 0],
    ],
  },
];

describe('a fixed window', () => {
  for (const { name, requestsPerMinute, rows } of schedules) {
    test(name, () => {
      const limit = fixedWindowOf(requestsPerMinute);
      let state: State | undefined;
      for (const [
        at,
        [atMs, hits, code, count, limitRemaining, durationUntilResetMs, retryAfterMs],
      ] of rows.entries()) {
        const nowMs = START_MS + atMs;
        const step = fixedWindow.step(limit, state, nowMs, hits, true);
        state = step.state;
        const decision = fixedWindow.describe(limit, state, nowMs, { hits, accepted: step.accepted, charged: true });
        expect({ row: at, count: state[1], ttlMs: step.ttlMs, ...decision }).toMatchObject({
          row: at,
          code,
          count,
          limitRemaining,
          durationUntilResetMs,
          retryAfterMs,
          ttlMs: count === 0 ? 0 : durationUntilResetMs, // kept exactly until the window ends; a count of 0 is not kept
        });
      }
    });
  }
});
