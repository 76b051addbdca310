import '../../helpers/realm.ts';
import { counterSubject, ReplayFigures } from '../../../src/parts/replay/figures.ts';
import { TrafficCounts } from '../../../src/parts/replay/input.ts';
import { HurtKeys, mostRefused, PeakHits } from '../../../src/parts/replay/key-figures.ts';
import { boundWarning, readableKey, reportText, spanText } from '../../../src/parts/replay/report.ts';
import type { RecordedRequest, ReplayedAnswer } from '../../../src/parts/replay/request.ts';
import { exceeded } from '../../../src/parts/replay/thresholds.ts';

const counterKey = (user: string, counter = 'fixed_window.2|60000'): string =>
  `${counter}|4:demo|4:user|${user.length}:${user}`;

const requestAt = (timeMs: number, more: Partial<RecordedRequest> = {}): RecordedRequest => ({
  timeMs,
  request: { domain: 'demo', descriptors: [{ entries: [], requestLimit: undefined, hits: 1 }] },
  ...more,
});

const createAnswer = (user: string, code: 'OK' | 'OVER_LIMIT', counter?: string): ReplayedAnswer => ({
  code,
  descriptors: [
    {
      rule: 'demo.user',
      key: counterKey(user, counter),
      code,
      remaining: code === 'OK' ? 1 : 0,
      limit: 2,
      windowMs: 60_000,
    },
  ],
});

test('thresholds fail if there is nothing to compare with them', () => {
  const none = new ReplayFigures();
  const noRequest = ['no request was replayed, so the thresholds cannot be checked'];
  for (const thresholds of [{ maxRefused: 1 }, { maxNewlyRefused: 1 }, { maxNewlyHurt: 9 }])
    expect(exceeded(none.result(), thresholds)).toEqual(noRequest);
  expect(exceeded(none.result(), {})).toEqual([]);
  const uncompared = new ReplayFigures();
  uncompared.observe(requestAt(1), createAnswer('anna', 'OK'));
  for (const thresholds of [{ maxNewlyRefused: 1 }, { maxNewlyHurt: 9 }])
    expect(exceeded(uncompared.result(), thresholds)).toEqual([expect.stringContaining('no answers to compare with')]);
  expect(exceeded(uncompared.result(), { maxRefused: 0 })).toEqual([]);
});

test('a refusal in an access log belongs to the descriptors that the replay refuses, if it refuses the request', () => {
  const figures = new ReplayFigures();
  const refused = { answer: { code: 'OVER_LIMIT' } } as const;
  const [anna, bert] = [createAnswer('anna', 'OVER_LIMIT'), createAnswer('bert', 'OK')];
  const both = { code: 'OVER_LIMIT', descriptors: [...anna.descriptors, ...bert.descriptors] } as const;
  figures.observe(requestAt(1, refused), both);
  const [carl, dora] = [createAnswer('carl', 'OK'), createAnswer('dora', 'OK')];
  figures.observe(requestAt(2, refused), { code: 'OK', descriptors: [...carl.descriptors, ...dora.descriptors] });
  expect(figures.result().change).toMatchObject({ newlyAdmitted: 1, keysNewlyHurt: 0, keysNewlySpared: 0 });
});

test('rule sets are compared by their limited subjects, even if their counters have other names', () => {
  const figures = new ReplayFigures();
  const bucket = 'token_bucket.2|60000';
  const rows = [
    ['anna', 'OK', 'OVER_LIMIT'],
    ['anna', 'OK', 'OVER_LIMIT'],
    ['bert', 'OVER_LIMIT', 'OVER_LIMIT'],
    ['carl', 'OVER_LIMIT', 'OK'],
    ['dora', 'OK', 'OK'],
  ] as const;
  for (const [at, [user, before, after]] of rows.entries())
    figures.observe(requestAt(at), createAnswer(user, before), createAnswer(user, after, bucket));
  const found = figures.result();
  expect(found).toMatchObject({
    rules: { requests: 5, admitted: 3, refused: 2, keysHurt: 2 },
    against: { requests: 5, admitted: 2, refused: 3, keysHurt: 2 },
    change: {
      compared: 5,
      newlyRefused: 2,
      newlyAdmitted: 1,
      keysNewlyHurt: 1,
      keysNewlySpared: 1,
      newlyHurt: [{ key: '4:demo|4:user|4:anna', refusals: 2 }],
    },
    recorded: undefined,
    labels: undefined,
  });
  expect(exceeded(found, { maxRefused: 0.5, maxNewlyRefused: 0.4, maxNewlyHurt: 1 })).toEqual([
    '3 of 5 requests refused, more than 50 %',
  ]);
  expect(exceeded(found, { maxNewlyRefused: 0.399, maxNewlyHurt: 0 })).toHaveLength(2);
  const text = reportText({ figures: found, counts: new TrafficCounts(), warnings: ['beware'] });
  expect(text).toContain('newly refused   2 (40 %)');
  expect(text).toContain('warning: beware');
});

test('without other rules, answers are compared with the recorded ones', () => {
  const figures = new ReplayFigures();
  const recorded = { code: 'OK', descriptors: [{ code: 'OK', remaining: 1 }] } as const;
  figures.observe(requestAt(1, { answer: recorded }), createAnswer('anna', 'OK'));
  figures.observe(requestAt(2, { answer: { code: 'OK' } }), createAnswer('anna', 'OVER_LIMIT'));
  figures.observe(requestAt(3, { answer: { code: 'OVER_LIMIT' } }), createAnswer('bert', 'OK'));
  figures.observe(requestAt(4), createAnswer('bert', 'OVER_LIMIT'));
  expect(figures.result()).toMatchObject({
    recorded: { answers: 3, same: 1 },
    change: { compared: 3, newlyRefused: 1, newlyAdmitted: 1, keysNewlyHurt: 1, keysNewlySpared: 0 },
  });
});

test('a lockout of a key ends with an admitted request, and the longest one is reported with its start', () => {
  const hurt = new HurtKeys({ left: 2 });
  for (const atMs of [10, 20, 30]) hurt.refused('a', atMs);
  hurt.admitted('a');
  for (const atMs of [100, 150]) hurt.refused('a', atMs);
  hurt.refused('b', 200);
  hurt.refused('c', 300); // beyond the budget
  expect(hurt.first).toEqual({ key: 'a', timeMs: 10 });
  expect(hurt.longest).toEqual({ key: 'a', timeMs: 100, ms: 50 });
  expect([hurt.all.size, hurt.untracked]).toEqual([2, 1]);
});

test('keys are listed by refusals, descending, then by name', () => {
  const keys = [3, 1, 4, 1, 5, 9, 2, 6, 5].map((refusals, at) => ({ key: `k${at}`, refusals }));
  const listed = mostRefused(keys, 4).map(({ key, refusals }) => `${key} ${refusals}`);
  expect(listed).toEqual(['k5 9', 'k7 6', 'k4 5', 'k8 5']);
  expect(mostRefused(keys.slice(0, 2), 4)).toHaveLength(2);
});

test('the report warns about refused keys beyond the limit', () => {
  const [few, enough] = [new ReplayFigures(2), new ReplayFigures(3)];
  for (const figures of [few, enough])
    for (const [at, user] of ['anna', 'bert', 'carl', 'carl'].entries())
      figures.observe(requestAt(at), createAnswer(user, 'OK'), createAnswer(user, 'OVER_LIMIT'));
  expect(few.result()).toMatchObject({ change: { keysNewlyHurt: 2 }, untrackedRefusals: 2 });
  expect(boundWarning(few.result())).toContain('more than 2 keys were refused: those of further keys are counted (2)');
  expect(boundWarning(enough.result())).toBeUndefined();
});

test('the peak of a key is twice the limit if bursts meet at the boundary of two windows', () => {
  const peaks = new PeakHits(60_000, { left: 10 });
  for (let times = 0; times < 10; times++) peaks.admitted('a', 1, 59_000 + times);
  for (let times = 0; times < 10; times++) peaks.admitted('a', 1, 61_000 + times);
  for (let times = 0; times < 15; times++) peaks.admitted('b', 1, 300_000 + 60_000 * times);
  expect(peaks.peak).toEqual({ key: 'a', timeMs: 61_009, hits: 20 });
});

test('the peak forgets hits that are a window old, and keys without recent hits are dropped for others', () => {
  const peaks = new PeakHits(1_000, { left: 2 });
  for (const atMs of [0, 400, 999, 1_400]) peaks.admitted('a', 1, atMs);
  expect(peaks.peak?.hits).toBe(3);
  peaks.admitted('b', 1, 1_400);
  peaks.admitted('c', 7, 1_401); // beyond the budget
  expect(peaks.peak?.hits).toBe(3);
  peaks.admitted('c', 7, 3_000);
  expect(peaks.peak).toEqual({ key: 'c', timeMs: 3_000, hits: 7 });
  const again = new PeakHits(1_000, { left: 1 });
  for (const atMs of [0, 1_000, 2_000, 2_010]) again.admitted('a', 1, atMs);
  expect(again.peak?.hits).toBe(2);
});

test.each([
  [counterKey('anna'), '4:demo|4:user|4:anna', 'demo user=anna'],
  [counterKey('a|1:b', 'fixed_window.2|2592000000@Europe/Berlin'), '4:demo|4:user|5:a|1:b', 'demo user=a|1:b'],
  ['in_flight|4:demo', '4:demo', 'demo '],
  ['fixed_window.2|60000|#digest', '#digest', '#digest'],
])('the subject of the counter %s is %s, shown as %s', (key, subject, shown) => {
  expect(counterSubject(key)).toBe(subject);
  expect(readableKey(key)).toBe(key.includes('#') ? key : shown);
  expect(readableKey(subject)).toBe(shown);
});

test.each([
  [250, '250 ms'],
  [1_500, '1.5 s'],
  [90_000, '1.5 min'],
  [7_200_000, '2 h'],
  [86_400_000, '1 d'],
])('%d ms is %s', (ms, text) => expect(spanText(ms)).toBe(text));
