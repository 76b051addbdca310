import { check, type Invariant } from '../../../proof/chaos/checker.ts';
import type { CallRecord, FaultRecord, Plan, RunLog, ScrapeRecord } from '../../../proof/chaos/log.ts';
import { describeExposure } from '../../../proof/chaos/report.ts';
import type { ChaosRule } from '../../../proof/chaos/rules.ts';

const fixed: ChaosRule = {
  ...{ key: 'k', algorithm: 'fixed_window', limit: 2, windowMs: 1_000, onStoreFailure: 'error', weight: 1 },
};
const sliding = { ...fixed, algorithm: 'sliding_window_log' } as const;
const counter = { ...fixed, algorithm: 'sliding_window_counter', limit: 4 } as const;
const bucket = { ...fixed, algorithm: 'token_bucket', burst: 3 } as const; // two a second
const local = { ...fixed, onStoreFailure: 'local', limit: 4, localShare: 2 } as const;

/** The start of the log. */
const startMs = 1_700_000_000_000;
let calls = 0;

/** Calls of 10 ms, sent at these times after the start. */
const passed = (...atMs: number[]): CallRecord[] => atMs.map((ms) => call(ms, {}));

function call(atMs: number, changes: Partial<CallRecord>): CallRecord {
  const sentMs = startMs + atMs;
  const answer = { hits: 1, instance: 0, sentMs, answeredMs: sentMs + 10, outcome: 'OK' };
  return { call: `0-${calls++}`, key: 'k', ...answer, ...changes };
}

/** Calls that an instance decided by itself. */
const locally = (...atMs: number[]): CallRecord[] => atMs.map((ms) => call(ms, { degraded: 'local' }));

const fault = (kind: string, fromMs: number, toMs: number, changes: Partial<FaultRecord> = {}): FaultRecord => {
  return { kind, on: 'store', begunMs: startMs + fromMs, endedMs: startMs + toMs, effects: [], ...changes };
};
const loss = (fromMs: number, toMs: number) => fault('flushed', fromMs, toMs, { effects: ['data_lost'] });

const scrape = (instance: number): ScrapeRecord => ({ instance, atMs: startMs, series: 1, decreased: [] });

/** A log with a refusal, so that the limit was reached. */
function logOf(rule: ChaosRule, made: readonly CallRecord[], faults: readonly FaultRecord[] = []): RunLog {
  const plan: Plan = {
    ...{ topology: 'single', seed: 1, instances: 2, rules: [rule], answerWithinMs: 1_000, normalWithinMs: 5_000 },
  };
  return {
    plan,
    calls: [...made, call(0, { outcome: 'OVER_LIMIT' })],
    faults,
    scrapes: [scrape(0), scrape(1)],
    counts: [],
  };
}

const found = (...log: Parameters<typeof logOf>): Invariant[] => check(logOf(...log)).map(({ invariant }) => invariant);

test('counters of an instance must not decrease or disappear, and must be read', () => {
  const log = logOf(fixed, passed(100));
  const lower = { ...scrape(1), decreased: [{ series: 'weir_requests_total', before: 2, after: 1 }] };
  for (const scrapes of [[scrape(0), scrape(1), lower], [scrape(0)]])
    expect(check({ ...log, scrapes }).map(({ invariant }) => invariant)).toEqual(['counters never decrease']);
});

describe('a limit', () => {
  test.each<[string, ChaosRule, CallRecord[], FaultRecord[]?]>([
    ['two in a window, and two in the next', fixed, passed(800, 900, 1_100, 1_200)],
    ['a third that may have been counted in the next window', fixed, passed(100, 200, 995)],
    ['as much again after the counters were lost', fixed, passed(100, 200, 600, 700), [loss(500, 510)]],
    [
      'one that was counted while the clock stood still',
      fixed,
      passed(800, 900, 1_600, 1_700, 1_800),
      [fault('frozen', 950, 1_605, { effects: ['clock_frozen'] })],
    ],
    ['two within any second', sliding, passed(500, 900, 1_500, 1_910)],
    ['the burst and its refill', bucket, passed(0, 10, 20, 500, 1_000)],
    ['a leased token, up to a second later', { ...bucket, isLeased: true }, passed(0, 10, 20, 30, 40)],
    ['the remaining part of the previous window', counter, passed(20, 100, 200, 300, 1_520, 1_530)],
    [
      'by each instance its share, while there is no store',
      local,
      [
        ...passed(2_000),
        ...[100, 200].map((ms) => call(ms, { degraded: 'local' })),
        ...[100, 200].map((ms) => call(ms, { degraded: 'local', instance: 1 })),
      ],
      [fault('frozen', 0, 500)],
    ],
    [
      'by an instance its share once more after a start',
      local,
      [...passed(2_000), ...locally(100, 200, 600, 700)],
      [fault('frozen', 50, 750), fault('instance killed', 400, 500, { on: 0, effects: ['local_lost'] })],
    ],
    [
      'by an instance its share in each window',
      local,
      [...passed(2_000), ...locally(800, 900, 1_100, 1_200)],
      [fault('frozen', 50, 1_500)],
    ],
  ])('may admit %s', (_, rule, made, faults = []) => {
    expect(found(rule, made, faults)).toEqual([]);
  });

  test.each<[string, ChaosRule, CallRecord[], FaultRecord[]?]>([
    ['a third in a window', fixed, passed(100, 200, 900)],
    ['two hits of one call when one was left', fixed, [...passed(100), call(200, { hits: 2 })]],
    ['a third after a loss in another window', fixed, passed(100, 200, 900), [loss(1_500, 1_510)]],
    ['a fifth after one loss', fixed, passed(100, 200, 600, 700, 800), [loss(500, 510)]],
    ['a third within a second, over a boundary', sliding, passed(500, 900, 1_400)],
    [
      'more parts than the window has room for',
      { ...sliding, algorithm: 'sliding_window_buckets' },
      passed(500, 900, 1_400),
    ],
    ['more than the burst', bucket, passed(0, 10, 20, 30)],
    ['more than came in', bucket, passed(0, 10, 20, 500, 900)],
    ['more than the backlog has room for', { ...bucket, algorithm: 'leaky_bucket' }, passed(0, 10, 20, 30)],
    ['more leased tokens than a second brings', { ...bucket, isLeased: true }, passed(0, 10, 20, 30, 40, 50)],
    ['a fifth in a window', counter, passed(20, 100, 200, 300, 400)],
    ['more than is left of the window before', counter, passed(20, 100, 200, 300, 1_220, 1_230)],
    [
      'by an instance more than its share, however many outages a window has',
      local,
      [...passed(2_000), ...locally(100, 200, 600)],
      [fault('frozen', 50, 250), fault('frozen', 550, 650)],
    ],
    [
      'by an instance more than its share though it stood still',
      local,
      [...passed(2_000), ...locally(100, 200, 600)],
      [fault('frozen', 50, 650), fault('instance frozen', 300, 500, { on: 0 })],
    ],
    [
      'by an instance a part of a bucket that is none',
      { ...bucket, onStoreFailure: 'local', localShare: 4, windowMs: 1_000_000 },
      [...passed(2_000), ...locally(100)],
      [fault('frozen', 50, 250)],
    ],
  ])('must not admit %s', (_, rule, made, faults = []) => {
    expect(found(rule, made, faults)).toEqual(['within its limit']);
  });

  test('must not be exceeded by a caller that fails open, with calls that were not decided', () => {
    const made = [
      ...passed(100, 110, 120, 130),
      ...locally(200, 210),
      ...[220, 230].map((ms) => call(ms, { degraded: 'local', instance: 1 })),
    ];
    expect(found(local, made, [fault('frozen', 50, 500)])).toEqual([]);
    const undecided = [...made, call(300, { outcome: 'UNAVAILABLE' })];
    const invariants = ['within its limit, with a failing-open caller', 'as its policy says'];
    expect(found(local, undecided, [fault('frozen', 50, 500)])).toEqual(invariants);
    const hurt = fault('instance killed', 250, 350, { on: 0 });
    expect(found(local, undecided, [fault('frozen', 50, 500), hurt])).toEqual([]); // the caller reached no running one
    const stopped = fault('instance frozen', 250, 350, { on: 0 });
    expect(found(local, undecided, [fault('frozen', 50, 500), stopped])).toEqual(invariants); // it runs again
  });

  test('must not be exceeded by a caller that fails open, if its policy is to deny', () => {
    const deny = { ...fixed, onStoreFailure: 'deny' } as const;
    const store = fault('frozen', 50, 500);
    const denied = [...passed(100, 200), call(300, { degraded: 'deny', outcome: 'OVER_LIMIT' })];
    expect(found(deny, denied, [store])).toEqual([]);
    expect(found(deny, [...denied, call(400, { outcome: 'UNAVAILABLE' })], [store])).toEqual([
      'within its limit, with a failing-open caller',
      'as its policy says',
    ]);
  });

  test('that a failing-open caller exceeds while the policy gives no answer is reported, but no violation', () => {
    const undecided = call(300, { hits: 3, outcome: 'UNAVAILABLE' });
    const log = logOf(fixed, [...passed(100, 200), undecided], [fault('crashed', 50, 500)]);
    expect(check(log)).toEqual([]);
    expect(describeExposure(log)).toContain('| k | error | 3 | 3 |');
  });

  test('may be exceeded by the share of an instance that was late, whatever its policy is', () => {
    const store = fault('frozen', 50, 500);
    const late = call(300, { degraded: 'local' });
    expect(found(fixed, [...passed(100, 200), late], [store])).toEqual([]);
    const beyond = [310, 320, 330].map((atMs) => call(atMs, { degraded: 'local' }));
    expect(found(fixed, [late, ...beyond], [store])).toContain('within its limit');
  });

  test('that no run reaches must not have counted more hits than were admitted, not decided, or refused by a policy', () => {
    const policy = call(300, { degraded: 'deny', outcome: 'OVER_LIMIT' });
    const undecided = call(400, { outcome: 'UNAVAILABLE' });
    const made = [call(100, { hits: 2 }), ...passed(200), policy, undecided];
    const log = logOf({ ...fixed, limit: 100, isTotal: true, onStoreFailure: 'deny' }, made, [
      fault('frozen', 50, 500),
    ]);
    const most = 5; // without the refusal by the counters
    const killed = fault('instance killed', 350, 450, { on: 0 }); // excuses the undecided call
    const checked = (counted: number): Invariant[] =>
      check({ ...log, faults: [...log.faults, killed], counts: [{ key: 'k', counted }] }).map(
        ({ invariant }) => invariant,
      );
    expect(checked(most)).toEqual([]);
    expect(checked(most + 1)).toEqual(['counted once']);
  });

  test('that only admits or only refuses proves nothing', () => {
    expect(found(fixed, [])).toEqual(['every limit was reached']);
    expect(check({ ...logOf(fixed, []), calls: passed(100) }).map(({ invariant }) => invariant)).toEqual([
      'every limit was reached',
    ]);
  });
});

describe('an answer', () => {
  const slow = call(100, { answeredMs: startMs + 1_200 });

  test('that is late', () => {
    expect(check(logOf(fixed, [slow]))).toMatchObject([{ invariant: 'answered in time', evidence: [slow] }]);
  });

  test('may be late if its instance was frozen', () => {
    expect(found(fixed, [slow], [fault('instance frozen', 50, 1_150, { on: 0 })])).toEqual([]);
    expect(found(fixed, [slow], [fault('instance frozen', 50, 1_150, { on: 1 })])).toEqual(['answered in time']);
  });

  const down = [fault('crashed', 50, 1_000)];
  const policy = (onStoreFailure: ChaosRule['onStoreFailure']): ChaosRule => ({ ...fixed, onStoreFailure });

  test.each<[ChaosRule['onStoreFailure'], Partial<CallRecord>]>([
    ['error', { outcome: 'UNAVAILABLE' }],
    ['allow', { degraded: 'allow' }],
    ['deny', { degraded: 'deny', outcome: 'OVER_LIMIT' }],
    ['local', { degraded: 'local' }],
    ['local', { degraded: 'local', outcome: 'OVER_LIMIT' }],
  ])('of %s without a store may be %j', (onStoreFailure, changes) => {
    expect(found(policy(onStoreFailure), [...passed(10), call(100, changes)], down)).toEqual([]);
  });

  test.each<[ChaosRule['onStoreFailure'], Partial<CallRecord>]>([
    ['error', { outcome: 'INTERNAL' }],
    ['error', { degraded: 'allow' }],
    ['allow', { outcome: 'UNAVAILABLE' }],
    ['allow', { degraded: 'allow', outcome: 'OVER_LIMIT' }],
    ['deny', { degraded: 'deny' }],
    ['deny', { outcome: 'UNAVAILABLE' }],
    ['local', { degraded: 'allow' }],
  ])('of %s without a store must not be %j', (onStoreFailure, changes) => {
    expect(found(policy(onStoreFailure), [...passed(10), call(100, changes)], down)).toEqual(['as its policy says']);
  });

  test('is expected from an instance that was stopped, unless the store had a fault', () => {
    const stop = fault('instance frozen', 90, 500, { on: 0 });
    const failed = [...passed(10), call(100, { outcome: 'UNAVAILABLE', answeredMs: startMs + 520 })];
    expect(found(fixed, failed, [stop])).toEqual(['decided after a stop']);
    expect(found(fixed, failed, [stop, fault('crashed', 300, 400)])).toEqual([]);
  });

  test('calls to an instance that was down may fail under any policy', () => {
    const killed = fault('instance killed', 50, 500, { on: 0 });
    expect(found(policy('deny'), [...passed(10), call(1_400, { outcome: 'UNAVAILABLE' })], [killed])).toEqual([]);
  });
});

describe('trouble', () => {
  const trouble = (atMs: number) => [...passed(10), call(atMs, { outcome: 'UNAVAILABLE' })];

  test.each<[string, CallRecord[], FaultRecord[]]>([
    ['during a fault', trouble(200), [fault('crashed', 100, 500)]],
    ['soon after it', trouble(5_400), [fault('crashed', 100, 500)]],
    ['after a fault that overlaps it', trouble(8_000), [fault('crashed', 100, 500), fault('emptied', 400, 4_000)]],
    [
      'where the next fault came before the answer',
      trouble(5_600),
      [fault('crashed', 100, 500), fault('frozen', 5_605, 5_700)],
    ],
  ])('may be %s', (_, made, faults) => {
    expect(found(fixed, made, faults)).toEqual([]);
  });

  test.each<[string, CallRecord[], FaultRecord[]]>([
    ['before the first fault', trouble(50), [fault('crashed', 100, 500)]],
    ['long after a fault', trouble(5_600), [fault('crashed', 100, 500)]],
    [
      'long after a fault, before the next',
      trouble(5_600),
      [fault('crashed', 100, 500), fault('frozen', 6_000, 6_100)],
    ],
  ])('must not be %s', (_, made, faults) => {
    expect(found(fixed, made, faults)).toEqual(['back to normal']);
  });

  test('that was not in the schedule', () => {
    const ended = fault('ended by itself', 100, 100, { on: 1, effects: ['unplanned'] });
    expect(found(fixed, passed(10), [ended])).toEqual(['no instance ends by itself']);
  });
});

describe('slots', () => {
  const slots: ChaosRule = { ...fixed, algorithm: 'in_flight', windowMs: 1_000 }; // two slots, with a ttl of a second
  /** A slot that is acquired at one time and, unless `toMs` is absent, released at another. */
  const slot = (id: string, fromMs: number, toMs?: number, changes: Partial<CallRecord> = {}): CallRecord[] => [
    call(fromMs, { id, ...changes }),
    ...(toMs === undefined ? [] : [call(toMs, { id, isRelease: true })]),
  ];
  const refused = (atMs: number): CallRecord => call(atMs, { id: 'refused', outcome: 'OVER_LIMIT' });
  /** Without the refusal that other logs have. */
  const foundOf = (made: readonly CallRecord[], faults: readonly FaultRecord[] = []): Invariant[] => {
    const log = logOf(slots, []);
    const reached = [...slot('x', -9_000), ...slot('y', -9_000), refused(-8_900)];
    return check({ ...log, calls: [...reached, ...made], faults }).map(({ invariant }) => invariant);
  };

  test.each<[string, CallRecord[], FaultRecord[]?]>([
    ['two at a time', [...slot('a', 0, 500), ...slot('b', 0, 500), ...slot('c', 520, 600)]],
    ['a third whose release was on its way', [...slot('a', 0, 500), ...slot('b', 0), ...slot('c', 495, 600)]],
    ['a third after a ttl without a release', [...slot('a', 0), ...slot('b', 0), ...slot('c', 1_000)]],
    [
      'another two within a ttl of a loss',
      [...slot('a', 0, 900), ...slot('b', 0, 900), ...slot('c', 200, 900), ...slot('d', 200, 900)],
      [loss(100, 150)],
    ],
    ['a refusal while two are held', [...slot('a', 0, 500), ...slot('b', 0, 500), refused(495)]],
    ['a refusal within a ttl of two that were never released', [...slot('a', 0), ...slot('b', 0), refused(1_005)]],
    [
      'a refusal by a replica that does not have a release',
      [...slot('a', 0, 100), ...slot('b', 0), refused(600)],
      [loss(150, 200)],
    ],
    [
      'a refusal after a call that may have been counted late',
      [...slot('a', 0), ...slot('b', 0, undefined, { outcome: 'UNAVAILABLE' }), refused(900)],
      [fault('frozen', -5, 800)],
    ],
  ])('may be: %s', (_, ...log) => {
    expect(foundOf(...log)).toEqual([]);
  });

  test.each<[string, Invariant, CallRecord[], FaultRecord[]?]>([
    ['a third', 'within its limit', [...slot('a', 0), ...slot('b', 0), ...slot('c', 500)]],
    [
      'a third after the release of a refused request',
      'within its limit',
      [
        ...slot('a', 0),
        ...slot('b', 0),
        refused(100),
        call(200, { id: 'refused', isRelease: true }),
        ...slot('c', 500),
      ],
    ],
    [
      'more than another two after a loss',
      'within its limit',
      [...slot('a', 0), ...slot('b', 0), ...slot('c', 200), ...slot('d', 200), ...slot('e', 300)],
      [loss(100, 150)],
    ],
    ['a refusal after releases', 'every slot comes back', [...slot('a', 0, 100), ...slot('b', 0, 100), refused(200)]],
    ['a refusal after the ttl', 'every slot comes back', [...slot('a', 0), ...slot('b', 0), refused(1_100)]],
  ])('may not be: %s', (_, invariant, ...log) => {
    expect(new Set(foundOf(...log))).toEqual(new Set([invariant]));
  });
});

describe('reservations', () => {
  /** Ten hits at once, and one per second; reservations have a ttl of a second. */
  const kept: ChaosRule = { ...fixed, algorithm: 'reserve', limit: 1, windowMs: 1_000, burst: 10, ttlMs: 1_000 };
  const tokens: ChaosRule = { ...kept, isFreed: true };
  const reserved = (id: string, atMs: number, hits: number): CallRecord => call(atMs, { id, hits });
  const committed = (id: string, atMs: number, hits: number, changes: Partial<CallRecord> = {}): CallRecord =>
    call(atMs, { id, hits, isCommit: true, ...changes });
  const refused = (atMs: number, hits: number): CallRecord =>
    call(atMs, { id: 'refused', hits, outcome: 'OVER_LIMIT' });
  /** Without the refusal that other logs have. */
  const foundOf = (
    made: readonly CallRecord[],
    faults: readonly FaultRecord[] = [],
    rule: ChaosRule = tokens,
  ): Invariant[] => {
    const log = logOf(rule, []);
    const reached = [reserved('x', -60_000, 10), refused(-59_900, 1)];
    return check({ ...log, calls: [...reached, ...made], faults }).map(({ invariant }) => invariant);
  };

  test.each<[string, CallRecord[], FaultRecord[]?]>([
    ['ten on hold, and ten more after the ttl', [reserved('a', 0, 10), reserved('b', 1_020, 10)]],
    ['what a commit leaves', [reserved('a', 0, 10), committed('a', 100, 4), reserved('b', 120, 6)]],
    ['what drains', [reserved('a', 0, 10), committed('a', 100, 10), reserved('b', 3_200, 3)]],
    ['a commit of more than was reserved', [reserved('a', 0, 5), committed('a', 50, 20), refused(100, 1)]],
    ['a refusal while all is on hold', [reserved('a', 0, 10), refused(500, 1)]],
    [
      'a refusal after a commit that came twice',
      [reserved('a', 0, 6), committed('a', 100, 6), committed('a', 101, 6), refused(200, 5)],
    ],
    [
      'a refusal after a commit that may be kept',
      [reserved('a', 0, 6), committed('a', 100, 6, { outcome: 'UNAVAILABLE' }), refused(2_000, 5)],
      [fault('frozen', -5, 300)],
    ],
    [
      'a refusal by a replica that does not have a commit',
      [reserved('a', 0, 10), committed('a', 100, 0), refused(600, 5)],
      [loss(150, 200)],
    ],
    ['another ten after a loss', [reserved('a', 0, 10), reserved('b', 200, 10)], [loss(100, 150)]],
  ])('may be: %s', (_, ...log) => {
    expect(foundOf(...log)).toEqual([]);
  });

  test.each<[string, CallRecord[], FaultRecord[]?]>([
    ['what drains from a lapsed reservation', [reserved('a', 0, 10), reserved('b', 4_200, 3)]],
    ['what a late commit leaves', [reserved('a', 0, 10), committed('a', 1_500, 4), reserved('b', 1_600, 6)]],
    ['a refusal after a reservation has lapsed', [reserved('a', 0, 10), refused(1_900, 5)]],
    [
      'a refusal after a commit that is too late to correct all',
      [reserved('a', 0, 10), committed('a', 1_500, 0), refused(1_600, 5)],
    ],
    [
      'a refusal by a replica that does not have a commit of before the lapse',
      [reserved('a', 0, 10), committed('a', 900, 0), refused(2_200, 5)],
      [loss(1_550, 1_600)],
    ],
    [
      'another ten after a loss before the first lapsed',
      [reserved('a', 0, 10), reserved('b', 2_500, 10)],
      [loss(100, 150)],
    ],
  ])('may be if they stay charged: %s', (_, made, ...more) => {
    const [faults = []] = more;
    expect(foundOf(made, faults, kept)).toEqual([]);
  });

  const ONCE = 'charged once, and free after the ttl';
  test.each<[string, Invariant, CallRecord[], FaultRecord[]?]>([
    ['more than the limit on hold', 'within its limit', [reserved('a', 0, 6), reserved('b', 100, 5)]],
    [
      'more than what was used leaves',
      'within its limit',
      [reserved('a', 0, 5), committed('a', 50, 12), reserved('b', 100, 1)],
    ],
    [
      'more than charged and on hold leave',
      'within its limit',
      [reserved('a', 0, 5), committed('a', 50, 5), reserved('b', 100, 3), reserved('c', 200, 3)],
    ],
    [
      'a refusal after what was reserved was not used',
      ONCE,
      [reserved('a', 0, 10), committed('a', 100, 0), refused(200, 5)],
    ],
    ['a refusal after the ttl', ONCE, [reserved('a', 0, 10), refused(1_100, 5)]],
    [
      'a refusal as if a commit had been charged twice',
      ONCE,
      [reserved('a', 0, 6), committed('a', 100, 6), committed('a', 101, 6), refused(200, 3)],
    ],
  ])('may not be: %s', (_, invariant, ...log) => {
    expect(new Set(foundOf(...log))).toEqual(new Set([invariant]));
  });

  test.each<[string, Invariant, CallRecord[]]>([
    ['more than a lapsed reservation leaves', 'within its limit', [reserved('a', 0, 10), reserved('b', 1_900, 3)]],
    [
      'more than a lapsed and an open reservation leave',
      'within its limit',
      [reserved('a', 0, 6), reserved('b', 1_100, 3), reserved('c', 1_900, 3)],
    ],
    ['a refusal after a lapsed reservation has drained', ONCE, [reserved('a', 0, 10), refused(9_100, 5)]],
    ['a refusal after a commit in time', ONCE, [reserved('a', 0, 10), committed('a', 900, 4), refused(1_600, 5)]],
  ])('may not be if they stay charged: %s', (_, invariant, made) => {
    expect(new Set(foundOf(made, [], kept))).toEqual(new Set([invariant]));
  });
});
