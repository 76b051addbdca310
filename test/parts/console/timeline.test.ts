import '../../helpers/realm.ts';
import type { StandingOverride } from '../../../src/engine/decide/overrides.ts';
import { mayConcern, Timeline, type TimelineState } from '../../../src/parts/console/timeline.ts';
import { rulesFrom } from '../../helpers/rules.ts';

const START_MS = 1_700_000_000_000;
const HOUR_MS = 3_600_000;

const quiet: TimelineState = {
  reload: undefined,
  problem: undefined,
  store: { isUp: true, reason: undefined, lastSuccessAtMs: START_MS },
  candidate: { state: 'off', hash: undefined },
  overrides: [],
};

const block: StandingOverride = {
  domain: 'demo',
  entries: [{ key: 'user', value: 'ann' }],
  effect: { kind: 'block' },
  untilMs: START_MS + HOUR_MS,
  by: 'ops',
  reason: 'a test',
};

/** A timeline that has seen these states, a minute apart. */
function after(...states: readonly Partial<TimelineState>[]): Timeline {
  const timeline = new Timeline(START_MS);
  for (const [at, state] of [{}, ...states].entries())
    timeline.gather({ ...quiet, ...state }, START_MS + (at + 1) * 60_000);
  return timeline;
}

const whole = { hasAll: true, hasDomain: () => true };
const shown = (timeline: Timeline) => timeline.marks((value) => value, whole);
const textsOf = (timeline: Timeline) => shown(timeline).map(({ text }) => text);

test('each change is marked once', () => {
  const reload = { atMs: START_MS + 90_000, text: 'changed demo.user' };
  const down = { store: { isUp: false, reason: 'connection refused', lastSuccessAtMs: START_MS }, reload };
  expect(textsOf(after({ reload }, { reload }, down, down, { reload }))).toEqual([
    'Rules reloaded: changed demo.user',
    'The store does not answer: connection refused',
    'The store answers again',
  ]);
  const problem = { problem: 'rules.yaml:3: unknown key' };
  const candidate = { state: 'on', hash: 'abc' } as const;
  expect(textsOf(after(problem, problem, {}, { candidate }, {}))).toEqual([
    'New rules rejected: rules.yaml:3: unknown key',
    'Candidate loaded',
    'Candidate removed',
  ]);
});

test('an override is marked when it is set and when it ends, with its client for readers that may see values', () => {
  const timeline = after({ overrides: [block] }, {});
  expect(textsOf(timeline)).toEqual(['Override set by ops: block', 'Override ended']);
  expect(shown(timeline)[0]).toMatchObject({ domain: 'demo', entries: block.entries });
  expect(timeline.marks(() => '(hidden)', whole)[0]).toMatchObject({ entries: [{ key: 'user', value: '(hidden)' }] });
});

test('of overrides, a rule has the marks of its own, and a client of it those of its own', () => {
  const tree = rulesFrom(`
domain: demo
descriptors:
  - { key: user, rate_limit: { unit: minute, requests_per_unit: 9 } }
  - { key: user, value: eve, rate_limit: { unit: minute, requests_per_unit: 9 } }
  - key: slot
    descriptors: [{ key: id, not_counted: hold, rate_limit: { algorithm: in_flight, requests_per_unit: 9, ttl: 9s } }]
`);
  const on = (domain: string, key: string, value: string, wildcard?: true): StandingOverride => ({
    ...{ ...block, domain, entries: [{ key, value }] },
    ...(wildcard && { wildcard }),
  });
  const overrides = [
    ...[on('demo', 'user', 'ann'), on('demo', 'user', 'eve'), on('demo', 'slot', 'a')],
    ...[on('demo', 'user', 'a*', true), on('other', 'user', 'ann'), on('demo', 'user_id', 'ann')],
  ];
  const timeline = after({ overrides });
  const values = (path: string, client?: string) => {
    const rule = [...tree.rules].find((one) => one.path === path);
    const shown = (value: string) => value;
    return timeline
      .marks(shown, whole, rule && mayConcern(tree, rule, client, shown))
      .map(({ entries }) => entries?.map(({ value }) => value).join());
  };
  expect(values('demo.user')).toEqual(['ann', 'a*']);
  expect(values('demo.user_eve')).toEqual(['eve', 'a*']);
  expect(values('demo.slot.id')).toEqual(['a']);
  expect(values('demo.user', 'user=ann')).toEqual(['ann', 'a*']);
  expect(values('demo.user', 'user=bob')).toEqual(['a*']);
});

test('an override that a process finds at its start is not marked', () => {
  const timeline = new Timeline(START_MS);
  timeline.gather(quiet, START_MS + 1_000);
  timeline.gather({ ...quiet, overrides: [block] }, START_MS + 2_000);
  timeline.gather({ ...quiet, overrides: [block] }, START_MS + 60_000);
  expect(shown(timeline)).toEqual([]);
});

test('reaching the store for the first time is not marked', () => {
  const timeline = new Timeline(START_MS);
  const unreached = { isUp: false, reason: 'not reached yet', lastSuccessAtMs: undefined };
  timeline.gather({ ...quiet, store: unreached }, START_MS);
  timeline.gather(quiet, START_MS + 1_000);
  expect(shown(timeline)).toEqual([]);
});

test('changes are kept for a day, and their number is bounded', () => {
  const timeline = after({ overrides: [block] });
  timeline.gather({ ...quiet, overrides: [block] }, START_MS + 25 * HOUR_MS);
  expect(shown(timeline)).toEqual([]);
  const many = Array.from({ length: 300 }, (_, at) => ({ ...block, reason: `reason ${at}` }));
  expect(shown(after({ overrides: many }))).toHaveLength(200);
});
