import type { Operation } from '../../../src/engine/backends/backend.ts';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { createDebit, type Debit } from '../../../src/engine/ledger/debit.ts';
import { Refusals } from '../../../src/engine/ledger/refusals.ts';
import { leasesWithin } from '../../../src/parts/leases/leases.ts';
import { Random } from '../../../src/parts/simulate/random.ts';
import { fakeClock } from '../../../test/helpers/clock.ts';
import { fixedWindowOf, type PolicedLimit } from '../../../test/helpers/limits.ts';

/** Requests at random times, on simulated clocks: the same for the same seed. */
interface SimulatedTraffic {
  readonly seed: number;
  readonly instances: number;
  readonly keys: number;
  /** Requests per second for each key, at all instances together. */
  readonly perSecond: number;
  readonly seconds: number;
}

/** The start of a minute. */
const START_MS = 1_700_000_040_000;
const MINUTE_MS = 60_000;
const TIMEOUT_MS = 1_000;
/** As in src/parts/redis/backend.ts. */
const MAX_IN_FLIGHT = 2;

/** Calls per request of an instance with at most two calls to Redis in flight, which take a round trip each. */
export function simulateBatches(seed: number, perSecond: number, roundTripMs: number, requests: number): number {
  const random = new Random(seed);
  const ends: number[] = []; // end times of calls in flight, earliest first
  let [nowMs, waiting, calls] = [0, 0, 0];
  const send = (atMs: number): void => {
    waiting = 0;
    calls++;
    ends.push(atMs + roundTripMs);
  };
  for (let request = 0; request < requests; request++) {
    nowMs += random.exponential(1_000 / perSecond);
    for (let end = ends[0]; end !== undefined && end <= nowMs; end = ends[0]) {
      ends.shift();
      if (waiting > 0) send(end);
    }
    waiting++;
    if (ends.length < MAX_IN_FLIGHT) send(nowMs);
  }
  return calls / requests;
}

/** Calls to the store per decision below the limit, of instances with the service's leases. */
export async function simulateLeases(traffic: SimulatedTraffic): Promise<number> {
  const clock = fakeClock(START_MS);
  const perMinute = traffic.perSecond * traffic.seconds;
  const limit = { ...fixedWindowOf(perMinute * 100, MINUTE_MS), consistency: 'leased' } as const;
  const memory = createMemoryBackend(clock, { maxCounters: traffic.keys });
  let [calls, decisions] = [0, 0];
  const run = async (operation: Operation, how: Parameters<typeof memory.run>[1]) => {
    calls++;
    const [reply] = await memory.run([operation], how);
    return reply ?? { code: 'UNAVAILABLE' as const, reason: 'no reply' };
  };
  const context = { monotonicMs: clock, run, isLive: () => true, every: () => () => {} };
  const open = leasesWithin({ maxLeases: traffic.keys });
  const instances = Array.from({ length: traffic.instances }, () => open(context));
  for (const { atMs, instance, debit } of generateRequests(traffic, limit)) {
    clock.set(atMs);
    const leases = instances[instance];
    if (leases && !leases.spend(debit)) await leases.answer(debit, TIMEOUT_MS);
    decisions++;
  }
  return calls / decisions;
}

/** Calls to the store per decision over the limit, of instances with the service's deny cache. */
export async function simulateRefusals(traffic: SimulatedTraffic): Promise<number> {
  const clock = fakeClock(START_MS);
  const limit = fixedWindowOf(1, MINUTE_MS);
  const memory = createMemoryBackend(clock, { maxCounters: traffic.keys });
  const terms = { monotonicMs: clock, maxBytes: Number.POSITIVE_INFINITY, isLive: () => true, isLocalCache: true };
  const instances = Array.from({ length: traffic.instances }, () => new Refusals(terms));
  let [calls, refusedCount] = [0, 0];
  for (const { atMs, instance, debit } of generateRequests(traffic, limit)) {
    clock.set(atMs);
    const cache = instances[instance];
    if (!cache) continue;
    if (cache.find(debit)) refusedCount++;
    else {
      const [reply] = await memory.run([debit], { spend: 'each', timeoutMs: TIMEOUT_MS });
      if (reply?.code !== 'OVER_LIMIT') continue;
      calls++;
      refusedCount++;
      cache.remember(debit, reply, { isCharged: true, calledAtMs: atMs });
    }
  }
  return calls / refusedCount;
}

interface SimulatedHit {
  readonly atMs: number;
  readonly instance: number;
  readonly debit: Debit;
}

/** Requests for random keys, at random instances. */
function* generateRequests(
  { seed, instances, keys, perSecond, seconds }: SimulatedTraffic,
  limit: PolicedLimit,
): Iterable<SimulatedHit> {
  const random = new Random(seed);
  const debits = Array.from({ length: keys }, (_, at) =>
    createDebit({ key: `key-${at}` as CounterKey }, { limit, policy: limit }, 1, true),
  );
  for (const atMs of random.steady(START_MS, START_MS + seconds * 1_000, perSecond * keys)) {
    const debit = debits[random.below(keys)];
    if (debit) yield { atMs, instance: random.below(instances), debit };
  }
}
