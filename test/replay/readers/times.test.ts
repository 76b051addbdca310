import { timeMsOf } from '../../../src/replay/readers/times.ts';

const AT_MS = 1_795_339_036_123; // 2026-11-22T09:17:16.123Z

test.each([
  ['2026-11-22T09:17:16.123Z', AT_MS],
  ['2026-11-22 09:17:16,123', AT_MS],
  ['2026-11-22T10:17:16.123456789+01:00', AT_MS],
  ['2026-11-22T04:47:16.123-0430', AT_MS],
  ['2026-11-22T09:17Z', AT_MS - 16_123],
  ['22/Nov/2026:10:17:16 +0100', AT_MS - 123],
  ['29/Feb/2024:00:00:00 +0000', 1_709_164_800_000],
  [1_795_339_036.123, AT_MS],
  [1_795_339_036_123, AT_MS],
  ['1795339036.123', AT_MS],
  [1_795_339_036_123_999, AT_MS],
  ['1795339036123456789', AT_MS],
])('%j is that moment', (text, atMs) => expect(timeMsOf(text)).toBe(atMs));

test.each(['', 'yesterday', '22/Nov/2026', '09:17:16', -1, 0, null, undefined, {}, true])('%j is no time', (text) =>
  expect(timeMsOf(text)).toBeUndefined(),
);
