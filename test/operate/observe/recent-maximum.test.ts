import { RecentMaximum } from '../../../src/operate/observe/rule-counts.ts';

const SLOT_MS = 15_000;

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

test('a maximum is kept for four further slots of 15 seconds, and dropped with the next', () => {
  const maximum = new RecentMaximum();
  expect(maximum.value).toBe(0);
  maximum.note(0.9);
  maximum.note(0.4);
  for (let slots = 0; slots < 4; slots++) {
    expect(maximum.value).toBe(0.9);
    jest.advanceTimersByTime(SLOT_MS);
  }
  maximum.note(0.5);
  expect(maximum.value).toBe(0.9);
  jest.advanceTimersByTime(SLOT_MS);
  expect(maximum.value).toBe(0.5);
  jest.advanceTimersByTime(7 * SLOT_MS);
  expect(maximum.value).toBe(0);
});
