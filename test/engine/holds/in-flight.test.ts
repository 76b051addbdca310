import { type Decision, NEVER_MS, type State } from '../../../src/engine/algorithms/limit.ts';
import { algorithmFor, type Limit } from '../../../src/engine/holds/limits.ts';
import type { Reports } from '../../../src/engine/holds/reports.ts';
import { inFlightOf } from '../../helpers/limits.ts';
import fc from '../../helpers/property.ts';

const START_MS = 1_700_000_000_000;
const TTL_MS = 30_000;

/** A counter, like that of a store. */
class Counter {
  readonly #limit: Limit;
  #state: State | undefined;
  #expiresAtMs = 0;

  constructor(limit: Limit) {
    this.#limit = limit;
  }

  get numbers(): number {
    return this.#state?.length ?? 0;
  }

  /** @param holder  0: without an id */
  run(nowMs: number, hits: number, holder = 0): Decision & Reports {
    const limit = this.#limit;
    const { step, describe: decide } = algorithmFor(limit);
    const known = this.#expiresAtMs > nowMs ? this.#state : undefined;
    const { accepted, state, ttlMs, report = state } = step(limit, known, nowMs, hits, true, { holder });
    [this.#state, this.#expiresAtMs] = [ttlMs > 0 ? state : undefined, nowMs + ttlMs];
    return decide(limit, report, nowMs, { hits, accepted, charged: true }, { holder });
  }

  held(nowMs: number): number {
    return this.run(nowMs, 0).holds?.held ?? 0;
  }
}

test('a refusal names the time at which a slot expires, as the latest at which one is free', () => {
  const counter = new Counter(inFlightOf(2, TTL_MS));
  counter.run(START_MS, 1, 1);
  counter.run(START_MS + 1_000, 1, 2);
  expect(counter.run(START_MS + 5_000, 1, 3)).toMatchObject({ retryAfterMs: 25_000, durationUntilResetMs: 26_000 });
  expect(counter.run(START_MS + 5_000, 2, 3)).toMatchObject({ retryAfterMs: 26_000 });
  expect(counter.run(START_MS + 5_000, 3, 3)).toMatchObject({ retryAfterMs: NEVER_MS });
});

test('slots that were never released are reported as expired once, with the age of the oldest held slot', () => {
  const counter = new Counter(inFlightOf(5, TTL_MS));
  counter.run(START_MS, 2, 1);
  counter.run(START_MS + 10_000, 1, 2);
  expect(counter.run(START_MS + 20_000, 1, 3).holds).toEqual({ held: 4, oldestMs: 20_000, expired: 0 });
  expect(counter.run(START_MS + 35_000, 1, 4).holds).toEqual({ held: 3, oldestMs: 25_000, expired: 2 });
  expect(counter.run(START_MS + 35_000, 1, 5).holds).toEqual({ held: 4, oldestMs: 25_000, expired: 0 });
});

test('without an id a refused request counts until its release', () => {
  const counter = new Counter(inFlightOf(1, TTL_MS));
  expect(counter.run(START_MS, 1)).toMatchObject({ code: 'OK' });
  expect(counter.run(START_MS, 1)).toMatchObject({ code: 'OVER_LIMIT' });
  expect(counter.run(START_MS, -1)).toMatchObject({ code: 'OK', limitRemaining: 0 });
  expect(counter.run(START_MS, 1)).toMatchObject({ code: 'OVER_LIMIT' });
  counter.run(START_MS, -1);
  counter.run(START_MS, -1);
  expect(counter.run(START_MS, 1)).toMatchObject({ code: 'OK' });
});

test('without an id any number of slots needs at most 65 entries', () => {
  const counter = new Counter(inFlightOf(1_000_000, TTL_MS));
  for (let atMs = 0; atMs < 10 * TTL_MS; atMs += 10) counter.run(START_MS + atMs, 1);
  expect(counter.numbers).toBeLessThanOrEqual(3 * 66);
  expect(counter.held(START_MS + 10 * TTL_MS)).toBeGreaterThanOrEqual(TTL_MS / 10 - 1);
});

/** Messages that arrive in any order, twice, late, or never. */
const anyMessages = fc.array(
  fc.record({
    holder: fc.integer({ min: 1, max: 6 }),
    hits: fc.constantFrom(1, 1, 1, -1, -1),
    onMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: TTL_MS / 4 }), fc.constantFrom(TTL_MS - 1, TTL_MS)),
  }),
  { maxLength: 60 },
);

test('with ids, any order of acquires and releases has the same effect as in a table of holders and expiry times', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 4 }), anyMessages, (slots, messages) => {
      const counter = new Counter(inFlightOf(slots, TTL_MS));
      const held = new Map<number, number>();
      let nowMs = START_MS;
      for (const { holder, hits, onMs } of messages) {
        nowMs += onMs;
        for (const [one, untilMs] of held) if (untilMs <= nowMs) held.delete(one);
        const isAccepted = hits < 0 || held.has(holder) || held.size < slots;
        if (hits < 0) held.delete(holder);
        else if (isAccepted) held.set(holder, nowMs + TTL_MS);
        const said = counter.run(nowMs, hits, holder);
        expect([said.code === 'OK', said.holds?.held]).toEqual([isAccepted, held.size]);
      }
    }),
    { numRuns: 600 },
  );
});

/** A request through a proxy, and the fate of its two messages. */
interface Request {
  readonly startsAtMs: number;
  readonly lastsMs: number;
  /** Times of its releases after its end; empty: they are lost. */
  readonly releasesMs: readonly number[];
}

const anyRequest: fc.Arbitrary<Request> = fc.record({
  startsAtMs: fc.integer({ min: 0, max: 4 * TTL_MS }),
  lastsMs: fc.integer({ min: 0, max: TTL_MS - 1 }),
  releasesMs: fc.array(fc.integer({ min: 0, max: TTL_MS }), { maxLength: 1 }),
});

interface Event {
  readonly atMs: number;
  readonly run: () => void;
}

/**
 * Runs the requests on a counter. @returns the most requests in flight at once, and the slots held a ttl after the last
 * message
 */
function simulate(slots: number, requests: readonly Request[]) {
  const counter = new Counter(inFlightOf(slots, TTL_MS));
  let [inFlight, most, lastMs] = [0, 0, START_MS];
  const events: Event[] = requests.flatMap((request) => {
    const startMs = START_MS + request.startsAtMs;
    let isRunning = false;
    const start = (): void => {
      isRunning = counter.run(startMs, 1).code === 'OK';
      if (!isRunning) return;
      inFlight++;
      most = Math.max(most, inFlight);
    };
    const end = (): void => {
      if (isRunning) inFlight--;
    };
    return [
      { atMs: startMs, run: start },
      { atMs: startMs + request.lastsMs, run: end },
      ...request.releasesMs.map((afterMs) => {
        const atMs = startMs + request.lastsMs + afterMs;
        return { atMs, run: () => void counter.run(atMs, -1) };
      }),
    ];
  });
  for (const { atMs, run } of events.toSorted((one, other) => one.atMs - other.atMs)) {
    run();
    lastMs = atMs;
  }
  return { most, heldLater: counter.held(lastMs + TTL_MS + Math.ceil(TTL_MS / 64)) };
}

test('without ids, requests in flight never exceed the limit, and every slot is free a ttl after the last message, if releases are lost, or late but within the ttl, and none is repeated', () => {
  const isInTime = ({ lastsMs, releasesMs }: Request) => releasesMs.every((afterMs) => lastsMs + afterMs < TTL_MS);
  const anyRequests = fc.array(anyRequest.filter(isInTime), { maxLength: 30 });
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 5 }), anyRequests, (slots, requests) => {
      const { most, heldLater } = simulate(slots, requests);
      expect(most).toBeLessThanOrEqual(slots);
      expect(heldLater).toBe(0);
    }),
    { numRuns: 600 },
  );
});

test('without ids, slots that are released in time never expire during consecutive long requests', () => {
  const counter = new Counter(inFlightOf(2, TTL_MS));
  for (let turn = 0; turn < 50; turn++) {
    const nowMs = START_MS + turn * 15_000;
    expect([turn, counter.run(nowMs, 1).code]).toEqual([turn, 'OK']);
    expect([turn, counter.run(nowMs, 1).code]).toEqual([turn, turn === 0 ? 'OK' : 'OVER_LIMIT']);
    counter.run(nowMs + 1, -1);
    if (turn > 0) counter.run(nowMs + 14_999, -1); // the previous request has lasted 30 s
  }
});
