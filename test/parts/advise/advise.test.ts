import { createHash } from 'node:crypto';
import { adviseOn } from '../../../src/parts/advise/advise.ts';
import type { AdvisedLimit, RuleAdvice } from '../../../src/parts/advise/answers.ts';
import { type Arrival, RuleSketch } from '../../../src/parts/advise/rule-sketch.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const START_MS = 1_700_000_040_000; // the start of a minute

const hashClient = (client: number): number => createHash('sha1').update(`client ${client}`).digest().readUInt32LE();

const createLimit = (changes: Partial<AdvisedLimit> = {}): AdvisedLimit => ({
  domain: 'demo',
  rule: 'demo.user',
  nodes: [{ key: 'user' }],
  at: 0,
  of: 1,
  text: '60 per minute',
  algorithm: 'fixed_window',
  requestsPerUnit: 60,
  windowMs: MINUTE_MS,
  shadow: false,
  keepsAlgorithm: false,
  leastLimit: 1,
  ...changes,
});

type Seen = Pick<Arrival, 'key' | 'timeMs'> & Partial<Arrival>;

function advise(seen: Iterable<Seen>, limit = createLimit(), maxKeysHit = 0.01): RuleAdvice {
  const sketch = new RuleSketch({
    windowMs: limit.windowMs,
    maxKeys: 20_000,
    seed: 1,
    budget: { left: 20_000 },
    admittedKeys: { left: 20_000 },
    makeRoom: () => false,
  });
  for (const one of seen)
    sketch.add({
      hits: 1,
      isRefused: false,
      client: undefined,
      level: 0,
      ...one,
    });
  const observed = sketch.observed();
  if (!observed) throw new Error('nothing was seen');
  return adviseOn(limit, observed, { maxKeysHit, shownKey: (key) => key });
}

/** Keys with evenly spaced hits in each minute. */
function* steady(name: string, keys: number, perMinute: number, minutes = 20): Iterable<Seen> {
  for (let minute = 0; minute < minutes; minute++)
    for (let hit = 0; hit < perMinute; hit++)
      for (let key = 0; key < keys; key++)
        yield { key: `${name}-${key}`, timeMs: START_MS + minute * MINUTE_MS + (hit * MINUTE_MS) / perMinute };
}

function* together(...all: readonly Iterable<Seen>[]): Iterable<Seen> {
  yield* all.flatMap((one) => [...one]).sort((one, other) => one.timeMs - other.timeMs);
}

test('keys that need far more are left out, and the limit is 1.5 times the need of the others', () => {
  const { proposal } = advise(together(steady('user', 300, 6), steady('bot', 10, 60)));
  expect(proposal).toMatchObject({
    algorithm: 'sliding_window_counter',
    requestsPerUnit: 11, // 7 hits around the boundary of two windows
    othersHit: { keys: 0, share: 0 },
    apartHit: { keys: 10, share: 1 },
    atMostShare: 0.01,
  });
  expect(proposal?.reasons[0]).toBe(
    '10 keys (3.2 %) stand out: each has 61 or more in its busiest window, three times as many as nearly all others',
  );
});

test('keys that differ by less are one group, and the limit is above the need of 99 % of them', () => {
  const { proposal } = advise(together(steady('user', 300, 6), steady('eager', 10, 12)));
  expect(proposal?.requestsPerUnit).toBeGreaterThanOrEqual(18);
  expect(proposal?.apartHit).toBeUndefined();
  expect(proposal?.reasons[0]).toMatch(/^no key stands out/);
});

test('more than a third of the keys is not treated as a separate group, regardless of their need', () => {
  expect(advise(together(steady('free', 300, 2), steady('paid', 200, 40))).proposal?.requestsPerUnit).toBeGreaterThan(
    40,
  );
});

test('keys with bursts get a bucket with this burst and a lower rate', () => {
  function* bursts(): Iterable<Seen> {
    for (let minute = 0; minute < 30; minute += 5)
      for (let call = 0; call < 40; call++)
        for (let key = 0; key < 300; key++)
          yield { key: `job-${key}`, timeMs: START_MS + minute * MINUTE_MS + call * 50 };
  }
  const { proposal } = advise(bursts());
  expect(proposal).toMatchObject({ algorithm: 'token_bucket', othersHit: { keys: 0 } });
  expect(proposal?.burst).toBeGreaterThanOrEqual(60);
  expect(proposal?.requestsPerUnit).toBeLessThanOrEqual(30);
  expect(proposal?.reasons.at(-1)).toMatch(/^keys come in bursts: with a burst of/);
});

test.each([
  ['leased', createLimit({ keepsAlgorithm: true }), 'fixed_window'],
  ['a log', createLimit({ algorithm: 'sliding_window_log' }), 'sliding_window_log'],
  ['a leaky bucket', createLimit({ algorithm: 'leaky_bucket', burst: 1 }), 'leaky_bucket'],
] as const)('a limit that is %s keeps its algorithm', (_, limit, algorithm) => {
  const { proposal } = advise(steady('user', 300, 6), limit);
  expect(proposal?.algorithm).toBe(algorithm);
  expect(proposal?.burst === undefined).toBe(algorithm !== 'leaky_bucket');
});

test.each([
  ['too few keys', steady('user', 29, 10), 'not enough data: 29 keys of at least 30'],
  ['too few requests', steady('user', 30, 1), 'not enough data: 600 requests of at least 1,000'],
  ['too short a time', steady('user', 100, 10, 5), 'not enough data: 4 windows of 1 min of at least 10'],
])('nothing is proposed from %s, but figures are shown', (_, seen, refusal) => {
  const advice = advise(seen);
  expect(advice.proposal).toBeUndefined();
  expect(advice.refusal).toBe(refusal);
  expect(advice.busiest.max).toBeGreaterThan(0);
});

test('the confidence depends on the number of keys, hours and days, and names what is missing', () => {
  const few = advise(steady('user', 60, 10));
  expect(few.confidence).toMatchObject({ grade: 'low', keys: 60, days: 1, requests: 12_000 });
  expect(few.confidence.because).toEqual([
    '60 keys can only show that at most 4.87 % of keys are hit; 1 % needs 299 keys',
    'it spans 19.9 min, not all hours of the day',
  ]);
  expect(few.proposal?.atMostShare).toBeCloseTo(0.0487, 4);
  function* weeks(days: number): Iterable<Seen> {
    for (let day = 0; day <= days; day++)
      for (const one of steady('user', 300, 1, 2)) yield { ...one, timeMs: one.timeMs + day * DAY_MS };
  }
  expect(advise(weeks(3)).confidence).toMatchObject({
    grade: 'medium',
    because: ['it spans 4 days, not all days of the week'],
  });
  expect(advise(weeks(8)).confidence).toMatchObject({ grade: 'high', because: [] });
});

test('the table has the number of keys and requests that each limit would refuse', () => {
  const { table } = advise(
    together(steady('user', 300, 6), steady('bot', 10, 60)),
    createLimit({ requestsPerUnit: 30 }),
  );
  expect(table).toEqual([
    { limit: 6, keysHit: 10, requestsRefused: 10 * 54 * 20 },
    { limit: 11, keysHit: 10, requestsRefused: 10 * 49 * 20, is: 'proposed' },
    { limit: 30, keysHit: 10, requestsRefused: 10 * 30 * 20, is: 'now' },
    { limit: 60, keysHit: 0, requestsRefused: 0 },
  ]);
});

const warningKinds = ({ warnings }: RuleAdvice): readonly string[] => warnings.map(({ kind }) => kind);

test('a limit that never fired is reported with the busiest key', () => {
  const advice = advise(steady('user', 300, 6), createLimit({ requestsPerUnit: 1_000 }));
  expect(advice.warnings).toEqual([
    {
      kind: 'never_fires',
      text: 'the limit never fired: the busiest key had 6 in a window, and the limit is 1,000',
    },
  ]);
});

test('a limit that fires for more than 5 % of the keys is reported', () => {
  const refused = (keys: number) =>
    advise(Array.from(steady('user', 100, 6), (one) => ({ ...one, isRefused: Number(one.key.split('-')[1]) < keys })));
  expect(warningKinds(refused(5))).toEqual([]);
  expect(warningKinds(refused(6))).toEqual(['fires_often']);
});

test('a key with more than a fifth of the hits is reported', () => {
  const seen = together(steady('user', 100, 6), [
    ...Array.from({ length: 4_000 }, (_, at) => ({ key: 'one', timeMs: START_MS + at * 300, isRefused: true })),
  ]);
  const { warnings } = advise(seen);
  expect(warnings.map(({ text }) => text)).toEqual(['one has 25 % of all hits: consider a rule of its own']);
});

test.each([
  [120, 'boundary', '2 times the limit: a fixed window restarts at each boundary'],
  [
    186,
    'beyond_boundary',
    '3.1 times the limit, and the boundary of a fixed window admits only twice as much: was there an override, a reset, or an answer without counters?',
  ],
])('%i hits that pass around a boundary are reported with a possible cause', (hits, kind, why) => {
  function* boundary(): Iterable<Seen> {
    for (let hit = 0; hit < hits; hit++)
      yield { key: 'eager', timeMs: START_MS + 5 * MINUTE_MS + (hit < hits / 2 ? -1_000 : 1_000) };
  }
  const seen = together(steady('user', 100, 6), boundary(), [{ key: 'user-1', timeMs: START_MS, isRefused: true }]);
  expect(advise(seen).warnings).toEqual([{ kind, text: `eager got ${hits} through within 1 min, ${why}` }]);
});

/** One address with 200 requests per minute, from `clients` clients in turn. */
function* office(clients: number): Iterable<Seen> {
  for (const one of steady('office', 1, 200))
    yield { ...one, client: hashClient(Math.floor(one.timeMs / 300) % clients), isRefused: true };
}

test('a key with many clients behind it is neither abusive nor normal', () => {
  const { proposal, warnings } = advise(together(steady('home', 300, 6), office(40)));
  expect(warnings.map(({ text }) => text)).toContainEqual(
    expect.stringMatching(/^office-0 is about (3\d|4\d) clients behind one address or name, with \d(\.\d)? each/),
  );
  expect(proposal).toMatchObject({ requestsPerUnit: 11, othersHit: { keys: 0 } });
  expect(proposal?.apartHit).toBeUndefined();
  expect(proposal?.reasons[0]).toBe('left out: 1 key (0.33 %) with many clients behind one address or name');
});

test('a key that names each of many clients only once is abusive', () => {
  const { proposal, warnings } = advise(together(steady('home', 300, 6), office(4_000)));
  expect(warnings.map(({ kind }) => kind)).not.toContain('many_clients');
  expect(proposal).toMatchObject({ requestsPerUnit: 11, apartHit: { keys: 1, share: 1 } });
});

test('the advice for a limit with shared keys names a few of them, and counts the others', () => {
  const offices = [1, 2, 3, 4, 5].map((at) => Array.from(office(40), (one) => ({ ...one, key: `office-${at}` })));
  const { warnings } = advise(together(steady('home', 300, 6), ...offices));
  const texts = warnings.flatMap(({ kind, text }) => (kind === 'many_clients' ? [text] : []));
  expect(texts).toHaveLength(4);
  expect(texts.at(-1)).toBe('2 further keys with many clients behind one address or name');
});
