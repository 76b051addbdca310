import { noQuotaCounts } from '../../../src/edge/rlqs/quota-counts.ts';
import { Breakers } from '../../../src/engine/backends/breaker.ts';
import { countedBy, createStatistics } from '../../../src/operate/observe/stats.ts';
import { createTotals, NO_LOAD } from '../../../src/serve/control/totals.ts';
import { createReporter, partsOf } from '../../../src/serve/decider/reporter.ts';
import { answerOf, verdictOf } from '../../helpers/verdicts.ts';

type DeciderGauges = NonNullable<Parameters<ReturnType<typeof createReporter>['take']>[1]>;

const OK = 0;
const UNAVAILABLE = 14;

/** The gauges of a worker with this number of cache lookups. */
const keeping = (
  lookups: number,
  size: number,
  {
    breakers = new Breakers(() => performance.now()),
    leases,
  }: { breakers?: DeciderGauges['store']['breakers']; leases?: { leased: number } } = {},
): DeciderGauges => ({
  store: {
    ledger: {
      refusals: { counts: { lookups, hits: 1, expired: 2, evicted: 3, overwritten: 4 }, size: () => size },
      leases,
    },
    breakers,
  },
  readiness: { state: () => ({ ready: true, reasons: [] }) },
  load: () => NO_LOAD,
});

test('a report has the counts since the previous one', () => {
  const reporter = createReporter(0.8);
  reporter.answered('d', answerOf([]));
  reporter.onCallFinished('ShouldRateLimit', OK, 1.5);
  reporter.onCallFinished('ShouldRateLimit', UNAVAILABLE, 500);
  reporter.onCallFinished('ShouldRateLimit', OK, 0.25);
  reporter.onCallFinished('Check', OK, 0.5);
  const first = reporter.take('last');
  expect(first.calls).toEqual([
    { method: 'ShouldRateLimit', status: OK, elapsedMs: [1.5, 0.25] },
    { method: 'ShouldRateLimit', status: UNAVAILABLE, elapsedMs: [500] },
    { method: 'Check', status: OK, elapsedMs: [0.5] },
  ]);
  expect(first.counted.calls).toEqual(
    new Map([
      ['ShouldRateLimit', 3],
      ['Check', 1],
    ]),
  );
  expect(first.counted.answers.OK).toBe(1);

  reporter.failed(new Error('a bug'));
  const { calls, counted } = reporter.take('last');
  expect([calls, counted.calls, counted.answers.OK, counted.failures.service]).toEqual([[], new Map(), 0, 1]);
});

test('a report since the start has the counts of earlier reports as well', () => {
  const reporter = createReporter(0.8);
  reporter.answered('d', answerOf([]));
  reporter.take('last');
  reporter.answered('d', answerOf([]));
  expect(reporter.take('start').counted.answers.OK).toBe(2);
  expect(reporter.take('last').counted.answers.OK).toBe(0);
  expect(reporter.take('start').counted.answers.OK).toBe(2);
});

test('the service is ready while there are deciders, and all are ready', () => {
  const whole = createTotals(createStatistics(0.8));
  const report = (worker: number, ready: boolean) => {
    const gauges = { ...keeping(0, 0), readiness: { state: () => ({ ready, reasons: [] }) } };
    whole.add(worker, createReporter(0.8).take('last', gauges), () => {});
  };
  expect(whole.isReady()).toBe(false);
  report(1, true);
  expect(whole.isReady()).toBe(true);
  report(2, false);
  expect(whole.isReady()).toBe(false);
  whole.ended(2);
  expect(whole.isReady()).toBe(true);
});

test('calls beyond 100,000 of a kind are counted, though not timed', () => {
  const reporter = createReporter(0.8);
  for (let at = 0; at < 100_010; at++) reporter.onCallFinished('Check', OK, 1);
  const { calls, counted } = reporter.take('last');
  expect(calls[0]?.elapsedMs).toHaveLength(100_000);
  expect(counted.calls.get('Check')).toBe(100_010);
});

test("the totals are the sums of the workers' reports, with calls one by one", () => {
  const statistics = createStatistics(0.8);
  const whole = createTotals(statistics);
  const calls: (readonly unknown[])[] = [];
  for (const [worker, elapsedMs] of [
    [1, 5],
    [2, 7],
  ] as const) {
    const reporter = createReporter(0.8);
    reporter.answered('d', answerOf([]));
    reporter.onCallFinished('Check', OK, elapsedMs);
    whole.add(worker, structuredClone(reporter.take('last')), (...call) => calls.push(call));
  }
  expect(calls).toEqual([
    ['Check', OK, 5],
    ['Check', OK, 7],
  ]);
  expect(statistics.answers.OK).toBe(2);
  expect(statistics.calls.get('Check')).toBe(2);
  expect(whole.cache()).toBeUndefined();
});

test('caches are added up, with the counts of ended workers but not their contents', () => {
  const whole = createTotals(createStatistics(0.8));
  const report = (worker: number, lookups: number, size: number) =>
    whole.add(worker, createReporter(0.8).take('last', keeping(lookups, size)), () => {});
  const told = () => ({ ...whole.cache()?.counts, size: whole.cache()?.size() });
  report(1, 10, 5);
  report(2, 100, 7);
  report(1, 11, 6); // counts since the worker's start
  const both = { lookups: 111, hits: 2, expired: 4, evicted: 6, overwritten: 8 };
  expect(told()).toEqual({ ...both, size: 13 });
  whole.ended(1);
  expect(told()).toEqual({ ...both, size: 7 });
  whole.ended(2);
  report(3, 1_000, 1);
  expect(told()).toEqual({ lookups: 1_111, hits: 3, expired: 6, evicted: 9, overwritten: 12, size: 1 });
});

test('pending commits and quotas are added up, with the counts of ended workers but not what they held', () => {
  const whole = createTotals(createStatistics(0.8));
  for (const worker of [1, 2]) {
    const commits = { pending: 1, sent: 10, dropped: 100 };
    const quotas = { ...noQuotaCounts(), streams: 1, buckets: 2, reports: 30 };
    whole.add(
      worker,
      createReporter(0.8).take('last', {
        ...keeping(0, 0),
        load: () => ({ ...NO_LOAD, inFlight: 5, commits, quotas }),
      }),
      () => {},
    );
  }
  whole.ended(1);
  expect(whole.load()).toMatchObject({
    inFlight: 5,
    commits: { pending: 1, sent: 20, dropped: 200 },
    quotas: { streams: 1, buckets: 2, reports: 60 },
  });
});

test('open circuits, leased hits and undecided calls are added up, without the circuits and leases of ended workers', () => {
  const statistics = createStatistics(0.8);
  const whole = createTotals(statistics);
  for (const [worker, leased] of [
    [1, 30],
    [2, 12],
  ] as const) {
    const reporter = createReporter(0.8);
    reporter.missed('late');
    const states = new Map([['a:6379', 'open'] as const, ['b:6379', worker === 1 ? 'half_open' : 'closed'] as const]);
    const kept = keeping(0, 0, { breakers: { states: () => states }, leases: { leased } });
    whole.add(worker, structuredClone(reporter.take('last', kept)), () => {});
  }
  expect(statistics.undecided.late).toBe(2);
  expect([whole.leased(), whole.openCircuits()]).toEqual([42, new Map(Object.entries({ 'a:6379': 2, 'b:6379': 1 }))]);
  whole.ended(1);
  expect([whole.leased(), whole.openCircuits()]).toEqual([12, new Map(Object.entries({ 'a:6379': 1, 'b:6379': 0 }))]);
});

test('a report is sent in parts of at most 1,000 names, which are equivalent together', () => {
  const reporter = createReporter(0.8);
  for (let at = 0; at < 2_500; at++) reporter.answered('d', answerOf([verdictOf([`user_${at}`])]));
  for (let at = 0; at < 3_100; at++) reporter.answered(`domain_${at}`, answerOf([{ kind: 'no_domain' }]));
  reporter.onCallFinished('Check', OK, 1.5);
  const report = reporter.take('last', keeping(10, 5));
  const parts = [...partsOf(report)];
  expect(parts.map(({ counted }) => [counted.rules.length, counted.unknownDomains.size])).toEqual([
    [1_000, 1_000],
    [1_000, 1_000],
    [500, 1_000],
    [0, 100],
  ]);
  const [whole, ofParts] = [createStatistics(0.8), createStatistics(0.8)];
  const times: number[] = [];
  const [one, several] = [createTotals(whole), createTotals(ofParts)];
  one.add(1, report, () => {});
  for (const part of parts) several.add(1, structuredClone(part), (_method, _status, ms) => times.push(ms));
  expect(countedBy(ofParts)).toEqual(countedBy(whole));
  expect(times).toEqual([1.5]);
  expect(several.cache()?.counts).toEqual(one.cache()?.counts);
});

test('a report without names is sent in one part', () => {
  const reporter = createReporter(0.8);
  reporter.missed('late');
  const report = reporter.take('last');
  expect([...partsOf(report)]).toEqual([report]);
});

test('a worker reports at most as many names as one process distinguishes', () => {
  const reporter = createReporter(0.8, 10_000);
  for (let at = 0; at < 500; at++) reporter.answered(`domain_${at}`, answerOf([{ kind: 'no_domain' }]));
  const { unknownDomains } = reporter.take('last').counted;
  expect(unknownDomains.size).toBeLessThan(300);
  expect(unknownDomains.get('(other)')).toBe(500 - (unknownDomains.size - 1));
});
