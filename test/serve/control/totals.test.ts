import { readFigures } from '../../../src/operate/observe/figures.ts';
import { createStatistics } from '../../../src/operate/observe/stats.ts';
import type { ReportedFigures } from '../../../src/operate/observe/table.ts';
import { createTotals, isIdle } from '../../../src/serve/control/totals.ts';
import { createReporter, splitReport } from '../../../src/serve/decider/reporter.ts';
import { answerOf, verdictOf } from '../../helpers/verdicts.ts';

type DeciderState = NonNullable<Parameters<ReturnType<typeof createReporter>['take']>[1]>;

const OK = 0;
const UNAVAILABLE = 14;

/** The state of a worker with these figures. */
const keeping = (figures: Partial<ReportedFigures> = {}, store: DeciderState['store'] = {}): DeciderState => ({
  store,
  readiness: { state: () => ({ ready: true, reasons: [] }) },
  figures: () => ({ ...readFigures(), ...figures }),
  sites: () => undefined,
  background: { report: () => [] },
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
  expect(first.counted.calls).toEqual({ ShouldRateLimit: 3, Check: 1 });
  expect(first.counted.answers.OK).toBe(1);

  reporter.failed(new Error('a bug'));
  const { calls, counted } = reporter.take('last');
  expect([calls, counted.calls, counted.answers.OK, counted.failures.service]).toEqual([[], {}, 0, 1]);
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
    const gauges = { ...keeping(), readiness: { state: () => ({ ready, reasons: [] }) } };
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
  expect(counted.calls.Check).toBe(100_010);
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
  expect(statistics.calls.Check).toBe(2);
  expect(whole.figures().cacheSize).toBeUndefined();
});

test('caches are added up, with the counts of ended workers but not their contents', () => {
  const whole = createTotals(createStatistics(0.8));
  const report = (worker: number, cacheLookups: number, cacheSize: number) => {
    const figures = { cacheLookups, cacheHits: 1, cacheExpired: 2, cacheEvicted: 3, cacheOverwritten: 4, cacheSize };
    whole.add(worker, createReporter(0.8).take('last', keeping(figures)), () => {});
  };
  report(1, 10, 5);
  report(2, 100, 7);
  report(1, 11, 6); // counts since the worker's start
  const both = { cacheLookups: 111, cacheHits: 2, cacheExpired: 4, cacheEvicted: 6, cacheOverwritten: 8 };
  expect(whole.figures()).toMatchObject({ ...both, cacheSize: 13 });
  whole.ended(1);
  expect(whole.figures()).toMatchObject({ ...both, cacheSize: 7 });
  whole.ended(2);
  report(3, 1_000, 1);
  const all = { cacheLookups: 1_111, cacheHits: 3, cacheExpired: 6, cacheEvicted: 9, cacheOverwritten: 12 };
  expect(whole.figures()).toMatchObject({ ...all, cacheSize: 1 });
});

test('pending commits and quotas are added up, with the counts of ended workers but not what they held', () => {
  const whole = createTotals(createStatistics(0.8));
  for (const worker of [1, 2]) {
    const commits = { pendingCommits: 1, commitsSent: 10, commitsDropped: 100 };
    const quotas = { quotaStreams: 1, quotaBuckets: 2, quotaReports: 30 };
    const state = keeping({ inFlight: 5, ...commits, ...quotas });
    whole.add(worker, createReporter(0.8).take('last', state), () => {});
  }
  whole.ended(1);
  expect(whole.figures()).toMatchObject({
    ...{ inFlight: 5, pendingCommits: 1, commitsSent: 20, commitsDropped: 200 },
    ...{ quotaStreams: 1, quotaBuckets: 2, quotaReports: 60 },
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
    const kept = keeping({ leased }, { circuits: () => states });
    whole.add(worker, structuredClone(reporter.take('last', kept)), () => {});
  }
  expect(statistics.undecided.late).toBe(2);
  expect([whole.figures().leased, whole.openCircuits()]).toEqual([
    42,
    new Map(Object.entries({ 'a:6379': 2, 'b:6379': 1 })),
  ]);
  whole.ended(1);
  expect([whole.figures().leased, whole.openCircuits()]).toEqual([
    12,
    new Map(Object.entries({ 'a:6379': 1, 'b:6379': 0 })),
  ]);
});

test('a report is sent in parts of at most 1,000 names, which are equivalent together', () => {
  const reporter = createReporter(0.8);
  for (let at = 0; at < 2_500; at++) reporter.answered('d', answerOf([verdictOf([`user_${at}`])]));
  for (let at = 0; at < 3_100; at++) reporter.answered(`domain_${at}`, answerOf([{ kind: 'no_domain' }]));
  reporter.onCallFinished('Check', OK, 1.5);
  const report = reporter.take('last', keeping({ cacheLookups: 10 }));
  const parts = [...splitReport(report)];
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
  expect(ofParts.counted()).toEqual(whole.counted());
  expect(times).toEqual([1.5]);
  expect(several.figures().cacheLookups).toBe(one.figures().cacheLookups);
});

test('a report without names is sent in one part', () => {
  const reporter = createReporter(0.8);
  reporter.missed('late');
  const report = reporter.take('last');
  expect([...splitReport(report)]).toEqual([report]);
});

test('a worker reports at most as many names as one process distinguishes', () => {
  const reporter = createReporter(0.8, 10_000);
  for (let at = 0; at < 500; at++) reporter.answered(`domain_${at}`, answerOf([{ kind: 'no_domain' }]));
  const { unknownDomains } = reporter.take('last').counted;
  expect(unknownDomains.size).toBeLessThan(300);
  expect(unknownDomains.get('(other)')).toBe(500 - (unknownDomains.size - 1));
});

test('a decider is idle while it is not asked for anything', () => {
  const reporter = createReporter(0.8);
  expect(isIdle(reporter.take('last'))).toBe(true);
  reporter.onCallFinished('Check', OK, 1);
  expect(isIdle(reporter.take('last'))).toBe(false);
  reporter.answered('d', answerOf([]));
  expect(isIdle(reporter.take('last'))).toBe(false);
  reporter.missed('late');
  expect(isIdle(reporter.take('last'))).toBe(false);
  expect(isIdle(reporter.take('last'))).toBe(true);
});
