import { algorithmFor } from '../../../src/engine/holds/limits.ts';
import {
  servedP99Ms as p99Ms,
  servedPerSecond as rate,
  runUpstream,
  type UpstreamModel,
} from '../../../src/parts/simulate/upstream.ts';
import { adaptiveOf, inFlightOf } from '../../helpers/limits.ts';

const WORKERS = 25;
const WORK_MS = 100;
const CAPACITY = (WORKERS * 1_000) / WORK_MS;
const PHASE_MS = 30_000;
/** The time in which the limit finds a changed capacity. */
const FINDS_MS = 10_000;

const model: UpstreamModel = {
  limit: adaptiveOf(1_000),
  workers: WORKERS,
  workMs: WORK_MS,
  isEven: true,
  sources: [{ arrivals: 1.5 * CAPACITY }],
  phases: [],
  seed: 1,
};

const changes = {
  'half of the workers stop': { working: 0.52 }, // 13 of them
  'each request takes twice as long': { slower: 2 },
};
const loads = {
  'even times': { source: { arrivals: 1.5 * CAPACITY }, isEven: true },
  'exponential times': { source: { arrivals: 1.5 * CAPACITY }, isEven: false },
  clients: { source: { clients: 4 * WORKERS }, isEven: true },
};
const rows = Object.entries(changes).flatMap(([change, phase]) =>
  Object.entries(loads).map(([load, how]) => ({ change, phase, load, ...how })),
);

type Change = (typeof changes)[keyof typeof changes];

/** The time that 99 % of the requests do not exceed without a queue. */
const unloadedMs = ({ workMs, isEven }: UpstreamModel): number => workMs * (isEven ? 1.2 : -Math.log(0.01));

/** Checks that a limit finds the capacity in each of three phases, and that no queue stays: the change is the second. */
function expectToFind(upstream: UpstreamModel, change: Change): void {
  const phases = [{ forMs: PHASE_MS }, { forMs: PHASE_MS, ...change }, { forMs: PHASE_MS }];
  const { ended } = runUpstream({ ...upstream, phases });
  const capacity = (upstream.workers * 1_000) / upstream.workMs;
  const slower = 'slower' in change ? change.slower : 1;
  const changed = 'working' in change ? Math.round(upstream.workers * change.working) / upstream.workers : 1 / slower;
  for (const [at, part] of [1, changed, 1].entries()) {
    const [fromMs, toMs] = [at * PHASE_MS + FINDS_MS, (at + 1) * PHASE_MS];
    expect([at, rate(ended, fromMs, toMs) / (capacity * part) >= 0.9]).toEqual([at, true]);
    expect([at, p99Ms(ended, fromMs, toMs) <= 2 * unloadedMs(upstream) * (at === 1 ? slower : 1)]).toEqual([at, true]);
  }
  expect((3 * rate(ended, 0, 3 * PHASE_MS)) / (capacity * (2 + changed))).toBeGreaterThanOrEqual(0.9);
}

test.each(rows)(
  'serves 90 % of the capacity 10 s after $change and after it returns, with $load',
  ({ phase, source, isEven }) => expectToFind({ ...model, sources: [source], isEven }, phase),
);

const [halved, slowed] = Object.values(changes) as [Change, Change];
const small = { ...model, workers: 8, workMs: 50, sources: [{ arrivals: 240 }] };
test.each([
  ['fewer clients than slots queue', { ...model, sources: [{ clients: 2 * WORKERS }] }, halved],
  ['the first probe ends while requests queue', { ...small, sources: [{ arrivals: 480 }] }, halved],
  ['the baseline of a slower upstream hides the queue of a faster one', small, slowed],
] as const)('finds the capacity although %s', (_, upstream, change) => expectToFind(upstream, change));

test('serves at most 5 % less than the best constant limit', () => {
  const phases = [{ forMs: 60_000 }];
  const servedBy = (limit: UpstreamModel['limit']): number =>
    rate(runUpstream({ ...model, limit, isEven: false, phases }).ended, FINDS_MS, 60_000);
  const best = Math.max(...[10, 20, 25, 30, 40, 60].map((slots) => servedBy(inFlightOf(slots, 30_000))));
  expect(servedBy(model.limit)).toBeGreaterThanOrEqual(0.95 * best);
});

test('sheds sheddable requests first: critical ones pass through a spike of 12 times as many', () => {
  const perSecond = CAPACITY / 3;
  const critical = { arrivals: perSecond };
  const sheddable = { arrivals: [perSecond, 12 * perSecond, perSecond], threshold: 60 };
  const phases = [20_000, 30_000, 20_000].map((forMs) => ({ forMs }));
  const { ended } = runUpstream({ ...model, sources: [critical, sheddable], phases });
  const ofCritical = ended.filter(({ source, atMs }) => source === critical && atMs >= 10_000);
  const served = ofCritical.filter(({ outcome }) => outcome === 'served');
  expect(served.length / ofCritical.length).toBeGreaterThanOrEqual(0.994);
  expect(p99Ms(ofCritical, 25_000, 50_000)).toBeLessThanOrEqual(2 * unloadedMs(model));
  expect(rate(ended, 30_000, 50_000)).toBeGreaterThanOrEqual(0.9 * CAPACITY);
});

test.each([
  [undefined, 10],
  [100, 10],
  [85, 8],
  [60, 6],
  [1, 1],
])('requests with a threshold of %j have %i of ten slots', (threshold, slots) => {
  const limit = adaptiveOf(10, 60_000, { min: 10 });
  const { step } = algorithmFor(limit);
  let state: readonly number[] | undefined;
  const taken = Array.from({ length: 12 }, (_, holder) => {
    const next = step(limit, state, 1_000, 1, true, { holder: holder + 1, threshold });
    state = next.state;
    return next.accepted;
  });
  expect(taken.filter((isTaken) => isTaken)).toHaveLength(slots);
});

test('keeps an eighth of the limit when all requests fail, and serves as before when they succeed again', () => {
  const phases = [{ forMs: 20_000 }, { forMs: 20_000, failing: 1 }, { forMs: 20_000 }];
  const { limits, ended } = runUpstream({ ...model, phases });
  expect(Math.min(...limits.slice(20, 40))).toBeGreaterThanOrEqual(Math.floor((limits[19] ?? 0) / 8));
  expect(rate(ended, 50_000, 60_000)).toBeGreaterThanOrEqual(0.9 * CAPACITY);
});

test('does not grow while it is not used', () => {
  const { limits } = runUpstream({ ...model, sources: [{ arrivals: 30 }], phases: [{ forMs: 60_000 }] }); // about 3 in flight
  expect(Math.max(...limits)).toBeLessThanOrEqual(16);
});

test('halves after each ten idle windows, and is like a new counter after 100', () => {
  const limit = adaptiveOf(1_000);
  const { step } = algorithmFor(limit);
  const state = [64_000, 100_000, 0, 0, 0, 0, 0, 0, 100_000, 0, 0, 0, 0, 0, 0, 1];
  const slotsAt = (ms: number): number | undefined => step(limit, state, ms, 0, false).report?.[0];
  expect([0, 9_999, 10_000, 20_000, 99_000, 100_000].map(slotsAt)).toEqual([64, 64, 32, 16, 4, 4]);
  expect(step(limit, state, 100_000, 1, true).report?.slice(0, 4)).toEqual([4, 0, 0, 0]);
});

test.each([
  ['gradient', { arrivals: 1.5 * CAPACITY }],
  ['gradient', { clients: 4 * WORKERS }],
  ['aimd', { arrivals: 1.5 * CAPACITY }],
  ['aimd', { clients: 4 * WORKERS }],
] as const)('with %s, three clients whose requests fail at once take no capacity from %j', (target, others) => {
  const sources = [others, { clients: 3, fails: true as const }];
  const limit = adaptiveOf(1_000, undefined, { target });
  const { ended } = runUpstream({ ...model, limit, sources, phases: [{ forMs: 40_000 }] });
  expect(rate(ended, FINDS_MS, 40_000)).toBeGreaterThanOrEqual(0.9 * CAPACITY);
});

test('a failure counts with the probability that is its part of the time of a usual request', () => {
  const limit = adaptiveOf(1_000);
  const { step } = algorithmFor(limit);
  /** The share of ids, evenly distributed, whose failure counts. */
  const countedAfter = (heldMs: number, baselineUs: number, count: number, sumMs: number): number => {
    const counter = [64_000, baselineUs, 0, 900, count, sumMs, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    const counted = Array.from({ length: 20 }, (_, at) => {
      const holder = (2 ** 53 / 20) * (at + 0.5);
      const { state } = step(limit, counter, 900, 1, true, { holder });
      return step(limit, state, 900 + heldMs, -1, true, { holder, status: 503 }).state[6] ?? 0;
    });
    return counted.reduce((sum, one) => sum + one, 0) / 20;
  };
  expect([0, 5, 50, 100, 200].map((heldMs) => countedAfter(heldMs, 100_000, 0, 0))).toEqual([0, 0.05, 0.5, 1, 1]);
  expect(countedAfter(5, 0, 2, 20)).toBe(0.5); // no baseline yet
  expect(countedAfter(5, 0, 0, 0)).toBe(1); // nor a success
});

test.each([
  [200, [1, 100, 0]],
  [undefined, [1, 100, 0]],
  [404, [0, 0, 0]],
  [499, [0, 0, 0]],
  [500, [0, 0, 1]],
])('a release with the status %j is measured as %j: successes, their hold times, failures', (status, measured) => {
  const limit = adaptiveOf(1_000);
  const { step } = algorithmFor(limit);
  const { state: taken } = step(limit, undefined, 1_000, 3, true, { holder: 7 });
  const { state, report } = step(limit, taken, 1_100, -1, true, { holder: 7, status });
  expect([state.slice(4, 7), report?.[5]]).toEqual([measured, status === undefined ? 2 : 0]);
  const { state: repeated } = step(limit, state, 1_200, -1, true, { holder: 8, status }); // holds nothing
  expect(repeated.slice(4, 7)).toEqual(measured);
});
