import { advanceRecentMaxima, RecentMaximum } from '../../../src/operate/observe/rule-counts.ts';

test('a maximum is kept for four further slots of 15 seconds, and dropped with the next', () => {
  const maximum = new RecentMaximum();
  expect(maximum.value).toBe(0);
  maximum.note(0.9);
  maximum.note(0.4);
  for (let slots = 0; slots < 4; slots++) {
    expect(maximum.value).toBe(0.9);
    advanceRecentMaxima();
  }
  maximum.note(0.5);
  expect(maximum.value).toBe(0.9);
  advanceRecentMaxima();
  expect(maximum.value).toBe(0.5);
  for (let slots = 0; slots < 7; slots++) advanceRecentMaxima();
  expect(maximum.value).toBe(0);
});
