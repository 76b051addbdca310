import '../../helpers/realm.ts';
import { type Outcomes, offeredOf } from '../../../src/operate/status/service-series.ts';
import { StoreLatency } from '../../../src/operate/status/store-latency.ts';
import type { StatusFinding } from '../../../src/parts/status/answers.ts';
import { type Incident, Incidents, type KeptIncident } from '../../../src/parts/status/incidents.ts';
import { describeSituation, incidentText } from '../../../src/parts/status/situation.ts';

const START_MS = Date.parse('2026-11-29T01:15:00Z');
const NONE: Outcomes = { passed: 0, refused: 0, degraded: 0, undecided: 0 };

/** A second of a bad day. */
interface Event {
  readonly outcomes?: Partial<Outcomes>;
  readonly by?: Readonly<Record<string, number>>;
  readonly away?: boolean;
  readonly storeMs?: number;
  readonly restarts?: number;
  readonly broken?: boolean;
  /** The clock jumps by this. */
  readonly jumpMs?: number;
}

/** Plays a day second by second, and describes it at any time. */
class Day {
  readonly incidents = new Incidents();
  readonly #latency = new StoreLatency();
  readonly #minute: Event[] = [];
  readonly #by: Record<string, number> = {};
  readonly #totals: Record<keyof Outcomes, number> = { ...NONE };
  #restarts = 0;
  #lastSuccessAtMs = START_MS;
  nowMs = START_MS;

  play(seconds: number, event: Event = {}): this {
    for (let second = 0; second < seconds; second++) this.#step(event);
    return this;
  }

  #step(event: Event): void {
    this.nowMs += 1_000 + (event.jumpMs ?? 0);
    this.#minute.push(event);
    for (const [reason, count] of Object.entries(event.by ?? {})) this.#by[reason] = (this.#by[reason] ?? 0) + count;
    for (const [outcome, count] of Object.entries(event.outcomes ?? {}))
      this.#totals[outcome as keyof Outcomes] += count;
    this.#restarts += event.restarts ?? 0;
    if (!event.away) this.#lastSuccessAtMs = this.nowMs;
    this.#latency.gather({}, event.away ? undefined : (event.storeMs ?? 0.4));
    this.incidents.gather({
      nowMs: this.nowMs,
      outcomes: { ...NONE, ...event.outcomes },
      undecidedBy: { ...this.#by },
      totals: { ...this.#totals },
      isStoreAway: event.away ?? false,
      lastSuccessAtMs: this.#lastSuccessAtMs,
      isStoreSlow: this.#latency.isSlowerThan(15),
      restarts: this.#restarts,
      hasNewestRules: !event.broken,
    });
  }

  describe(
    others: readonly StatusFinding[] = [],
    ofProxies: readonly StatusFinding[] = [],
  ): ReturnType<typeof describeSituation> {
    const minute = this.#minute.slice(-60);
    const { away, broken } = minute.at(-1) ?? {};
    const sum = (pick: (event: Event) => number): number => minute.reduce((total, event) => total + pick(event), 0);
    const reasons = new Set(minute.flatMap(({ by }) => Object.keys(by ?? {})));
    const [lastMinute, lastDay] = [this.#latency.minute(), this.#latency.day()];
    return describeSituation({
      nowMs: this.nowMs,
      isReady: true,
      lastMinute: {
        passed: sum(({ outcomes }) => outcomes?.passed ?? 0),
        refused: sum(({ outcomes }) => outcomes?.refused ?? 0),
        degraded: sum(({ outcomes }) => outcomes?.degraded ?? 0),
        undecided: sum(({ outcomes }) => outcomes?.undecided ?? 0),
      },
      undecidedBy: Object.fromEntries([...reasons].map((reason) => [reason, sum(({ by }) => by?.[reason] ?? 0)])),
      store: {
        ...{ description: 'in Redis at cache:6379', failures: 0, openCircuits: [], isUp: !away },
        ...(away && { reason: 'connection refused' }),
        lastSuccessAt: new Date(this.#lastSuccessAtMs).toISOString(),
        ...(lastMinute && { lastMinute }),
        ...(lastDay && { lastDay }),
      },
      rules: {
        ...{ source: 'rules.yaml', count: 1, hash: 'abc', loadedAt: '2026-11-29T01:00:00Z', moreProblems: 0 },
        ...(broken ? { pending: 'invalid', problems: ['rules.yaml:4: bad unit'] } : { pending: null, problems: [] }),
      },
      incidents: this.incidents.list(),
      refusing: 'shop.user',
      ofProxies,
      others,
    });
  }
}

const normal: Event = { outcomes: { passed: 10 } };
const texts = (day: Day): readonly string[] =>
  day.incidents.list().map((one) => incidentText(one, 'in Redis at cache:6379'));

/** Ten bad days: the first second in which something is wrong, the truth about it, and what is left of it after. */
const badDays: Readonly<Record<string, readonly [event: Event, during: RegExp, after: RegExp]>> = {
  'store killed': [
    { outcomes: { passed: 5, undecided: 5 }, by: { store: 5 }, away: true },
    /^50 of 600 requests \(8\.3 %\) of the last minute got no decision.*: Redis does not answer; the store has not answered since 2026-11-29T01:16:40\.000Z: connection refused/,
    /^Redis was away, and 50 of 100 requests \(50 %\) got no decision: store 50; 2026-11-29T01:16:40\.000Z to 2026-11-29T01:16:50\.000Z/,
  ],
  'store slow': [
    { outcomes: { passed: 6, undecided: 8 }, by: { store: 4, late: 1, cancelled: 3 }, storeMs: 29 },
    /no decision.*: Redis does not answer in the time that callers give \(store 40, cancelled 30, late 10\)/,
    /^80 of 140 requests \(57\.1 %\) got no decision: store 40, cancelled 30, late 10; /,
  ],
  'store full': [
    { outcomes: { degraded: 10 } },
    /^100 of 600 requests \(16\.7 %\) of the last minute were decided without their counters/,
    /^100 of 100 requests \(100 %\) were decided without their counters; /,
  ],
  'decider killed': [
    { restarts: 1, outcomes: { passed: 10 } },
    /^Deciders ended 10 times, and were replaced; 2026/,
    /^Deciders ended 10 times, and were replaced; 2026/,
  ],
  'decider late': [
    { outcomes: { passed: 5, undecided: 5 }, by: { late: 5 } },
    /no decision.*: this process answers too late\./,
    /^50 of 100 requests \(50 %\) got no decision: late 50; /,
  ],
  'rules broken': [
    { outcomes: { passed: 10 }, broken: true },
    /^Newer rules are invalid, and the previous ones stay in force: rules\.yaml:4: bad unit\./,
    /^Newer rules were not in force, since they were invalid or could not be read; /,
  ],
  'proxy that times out': [
    { outcomes: { passed: 5, undecided: 5 }, by: { cancelled: 5 } },
    /no decision.*: callers gave up before they were answered\./,
    /^50 of 100 requests \(50 %\) got no decision: cancelled 50; /,
  ],
};

test.each(Object.entries(badDays))(
  '%s: the sentence tells it while it lasts and after it',
  (_, [event, during, after]) => {
    const day = new Day().play(100, normal);
    expect(day.describe().situation).toMatchObject({
      level: 'calm',
      text: 'All 600 requests of the last minute passed.',
    });
    day.play(10, event);
    const bad = day.describe();
    expect(bad.situation.text).toMatch(during);
    expect(bad.situation.level).not.toBe('calm');
    for (const { problem } of bad.findings) expect(bad.situation.text.toLowerCase()).toContain(problem.toLowerCase());
    day.play(60, normal);
    const { situation, findings } = day.describe();
    expect(situation.text).toMatch(after);
    expect({ level: situation.level, findings }).toEqual({ level: 'over', findings: [] });
  },
);

test('after an outage of the store, its undecided requests are told of once, and no timeout is blamed', () => {
  const outage = { outcomes: { undecided: 10 }, by: { store: 10 }, away: true };
  const day = new Day().play(100, normal).play(10, outage).play(20, normal);
  const { situation, findings } = day.describe();
  expect(situation.text).toMatch(/^100 of 600 requests .* got no decision.*: Redis was away, and answers again\.$/);
  expect(findings.map(({ advice }) => advice)).toEqual(['find out why Redis was away: the runbook WeirStoreDown']);
});

test('proxies whose requests got no decision are details of the sentence, with advice of their own unless the store is away', () => {
  const edge: StatusFinding = { level: 'degraded', problem: '5 requests of edge', advice: 'check its timeout' };
  const late = new Day().play(60, normal).play(5, { outcomes: { passed: 9, undecided: 1 }, by: { late: 1 } });
  const { situation, findings } = late.describe([], [edge]);
  expect(situation.text).toMatch(/^5 of 600 requests.*: this process answers too late\.$/);
  expect(findings.slice(1)).toEqual([edge]);
  late.play(5, { outcomes: { undecided: 10 }, by: { store: 10 }, away: true });
  const away = late.describe([], [edge]).findings;
  expect(away[1]).toEqual({ ...edge, level: 'failing', advice: away[0]?.advice }); // the worst findings come first
  expect(late.play(70, normal).describe([], [edge]).findings).toEqual([]);
});

test('a flood is refused: nothing is wrong, and the share is of all requests', () => {
  const { situation, findings } = new Day().play(60, { outcomes: { passed: 1, refused: 99 } }).describe();
  expect(situation.text).toBe('5,940 of 6,000 requests (99 %) of the last minute were refused, most by shop.user.');
  expect({ level: situation.level, findings }).toEqual({ level: 'calm', findings: [] });
});

test.each([
  ['an hour back', -3_600_000],
  ['an hour ahead', 3_600_000],
])('a clock that is set %s prolongs and ends no incident', (_, jumpMs) => {
  const outage = { outcomes: { undecided: 10 }, by: { store: 10 }, away: true };
  const day = new Day()
    .play(100, normal)
    .play(10, outage)
    .play(1, { ...outage, jumpMs })
    .play(9, outage)
    .play(30, normal);
  const [incident] = day.incidents.list();
  expect(incident).toMatchObject({ kind: 'outage', undecided: 200, untilMs: day.nowMs - 30_000 });
  expect(day.describe().situation.text).toMatch(/Redis was away/);
  expect(day.play(7_300, normal).describe().situation.level).toBe('calm');
});

test('calls that a decider did not finish when it ended are a number in its incident', () => {
  const day = new Day().play(10, normal).play(1, { by: { lost: 12 }, outcomes: { passed: 90, undecided: 12 } });
  day.play(2, normal).play(1, { restarts: 1 });
  expect(texts(day)).toContain('a decider ended with about 12 calls in flight, and was replaced');
  expect(day.describe().situation.text).toMatch(/^12 of \d+ requests .* got no decision.*: a decider ended while it/);
  expect(texts(day.play(60, normal).play(1, { restarts: 1 }))[0]).toBe('a decider ended, and was replaced');
});

test('incidents outlive the process that gathers them', () => {
  let kept: readonly KeptIncident[] = [];
  const second = {
    isStoreAway: true,
    lastSuccessAtMs: START_MS,
    isStoreSlow: false,
    restarts: 1,
    hasNewestRules: true,
  };
  const one = (nowMs: number, store: number) => ({
    ...{ ...second, nowMs },
    ...{ outcomes: { ...NONE, undecided: 2 }, totals: { ...NONE, undecided: store }, undecidedBy: { store } },
  });
  const first = new Incidents([], (all) => {
    kept = structuredClone(all);
  });
  first.gather(one(START_MS + 1_000, 2));
  const next = new Incidents(kept);
  const unseen = { passed: 3, undecided: 50 }; // while no control process was there
  next.begin({ totals: { ...NONE, ...unseen }, undecidedBy: { store: 50 } }, START_MS + 4_000); // since the deciders' start
  const at = { kind: 'outage', sinceMs: START_MS };
  expect(next.list()).toMatchObject([{ ...at, offered: 53, undecided: 50, by: { store: 50 } }]);
  next.gather(one(START_MS + 5_000, 52));
  expect(next.list()).toMatchObject([{ ...at, offered: 55, undecided: 52, by: { store: 52 } }]);
});

test('an outage keeps what was counted by a decider that has ended', () => {
  const known: KeptIncident = {
    ...{ kind: 'outage', sinceMs: START_MS, lastMs: START_MS, offered: 9, undecided: 9, degraded: 0, by: { store: 9 } },
    ...{ wasStoreAway: true, times: 1, offeredSince: 0 },
    counted: { totals: { ...NONE, undecided: 9 }, undecidedBy: { store: 9 } },
  };
  const next = new Incidents([known]);
  next.begin({ totals: { ...NONE, undecided: 4 }, undecidedBy: { store: 4 } }, START_MS + 1_000);
  expect(next.list()).toMatchObject([{ offered: 9, undecided: 9, by: { store: 9 } }]);
});

test('undecided requests come before the store, and both before refusals', () => {
  const day = new Day()
    .play(20, normal)
    .play(5, { ...badDays['store killed']?.[0], outcomes: { refused: 3, undecided: 1 } });
  const { text } = day.describe().situation;
  const at = ['got no decision', 'has not answered since', 'were refused'].map((one) => text.indexOf(one));
  expect(at).toEqual(at.toSorted((one, other) => one - other));
  expect(at).not.toContain(-1);
});

test('a disk that is full is told if it is all that is wrong, and counted otherwise', () => {
  const full: StatusFinding = { level: 'degraded', problem: 'writing the audit log fails', advice: 'check the disk' };
  const day = new Day().play(60, normal);
  expect(day.describe([full, full]).situation).toEqual({
    level: 'degraded',
    text: 'Writing the audit log fails; 1 other thing to attend to.',
    clauses: ['Writing the audit log fails', '1 other thing to attend to'],
  });
  day.play(1, { broken: true });
  expect(day.describe([full]).situation.text).toMatch(/^Newer rules are invalid.*; 1 other thing to attend to\.$/);
});

test('an outage stays in the sentence for as long as it lasted, and in the list for a day', () => {
  const day = new Day().play(10, normal).play(1_200, { outcomes: { undecided: 2 }, by: { store: 2 }, away: true });
  day.play(1_190);
  expect(day.describe().situation).toMatchObject({ level: 'over' });
  day.play(20);
  const { level, text } = day.describe().situation;
  expect(level).toBe('calm');
  expect(text).toMatch(
    /^No request came in the last minute; the last incident: Redis was away, and 2,400 of 2,400 requests /,
  );
  day.play(86_400);
  expect(texts(day)).toEqual([]);
  expect(day.describe().situation.text).toBe('No request came in the last minute.');
});

test('one undecided request among thousands is no incident, and the list is bounded', () => {
  const day = new Day().play(10, { outcomes: { passed: 1_000, undecided: 1 }, by: { cancelled: 1 } });
  expect(texts(day)).toEqual([]);
  for (let at = 0; at < 100; at++) day.play(1, { restarts: 1 }).play(60);
  expect(texts(day)).toHaveLength(50);
});

test('a store that is slow without harm is told, with its latency of the minute and of the day', () => {
  const day = new Day().play(60, normal).play(61, { outcomes: { passed: 10 }, storeMs: 29 });
  const { situation, findings } = day.describe();
  expect(situation.text).toMatch(/^Redis is slow: half of its calls take \d+(\.\d+)? ms or more/);
  expect(findings).toMatchObject([{ level: 'degraded', advice: expect.stringContaining('Is the store slow?') }]);
  expect(texts(day)).toEqual(['Redis was slow: half of its calls took more than 15 ms']);
  const latency = new StoreLatency();
  expect(latency.minute()).toBeUndefined();
  for (let second = 0; second < 120; second++) latency.gather({}, second < 60 ? 0.2 : 29);
  expect(latency.minute()?.p50Ms).toBeGreaterThan(25);
  expect(latency.day()?.p99Ms).toBeGreaterThan(25);
});

test('what was offered is everything that callers asked', () => {
  expect(offeredOf({ passed: 1, refused: 2, degraded: 3, undecided: 4 })).toBe(10);
  const incident: Incident = {
    ...{ kind: 'outage', sinceMs: 0, offered: 920, undecided: 438, degraded: 0, wasStoreAway: true, times: 1 },
    by: { late: 43, store: 320, cancelled: 75 },
  };
  expect(incidentText(incident, 'in Redis')).toBe(
    'Redis was away, and 438 of 920 requests (47.6 %) got no decision: store 320, cancelled 75, late 43',
  );
});
