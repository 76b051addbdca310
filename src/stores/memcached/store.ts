import { algorithmFor } from '../../algorithms/index.ts';
import { capacityOf, type Decision, MAX_COUNT, type State, type Step } from '../../algorithms/limit.ts';
import type { Clock } from '../../clock.ts';
import type { SharedWindow } from '../key.ts';
import { applyInParts } from '../parts.ts';
import { describeShared } from '../shared-counters.ts';
import type { Hit, Store, Unavailable } from '../store.ts';
import { within } from '../within.ts';
import type { MemcachedClient } from './client.ts';
import { safeKey } from './key.ts';
import type { MemcachedServers } from './servers.ts';
import { packState, unpackState } from './state.ts';

/** Hits of one request on one counter, and what they come to. */
interface Waiting {
  readonly hits: readonly Hit[];
  /** On the monotonic clock: nobody waits any longer then. */
  readonly untilMs: number;
  resolve(decisions: readonly Decision[]): void;
  reject(error: Error): void;
}

/** Both are this process's, but for tests. */
interface Clocks {
  readonly clock: Clock;
  /** What the servers go by. */
  readonly dateClock: Clock;
}

/** How often a counter that others keep changing is tried again before its hits are given up. */
const MAX_TRIES = 100;

/**
 * Counters in memcached, which any number of instances share. Each counter is exact by itself: its state is read, stepped on this
 * process's clock, and swapped for the new one only if nobody has changed it meanwhile, else once more. Hits that come while that is
 * under way go together with the next. The limits of a request are not one step: `spend` has no meaning here.
 *
 * Counters that envoyproxy/ratelimit shares are added to at once, and judged by what came of it.
 *
 * @param dateClock  only for tests whose clock is not that of the servers: when they may forget what they hold
 */
export function createMemcachedStore(servers: MemcachedServers, clock: Clock, dateClock: Clock = clock): Store {
  const queues = new Map<string, Waiting[]>();
  const clocks = { clock, dateClock };

  const serverOf = (key: string): MemcachedClient => {
    const server = servers.of(key);
    if (!server) throw new Error('no server is known yet');
    return server;
  };

  /** Works off what waits for a counter, everything that has come at a time. */
  const work = async (key: string, queue: Waiting[]): Promise<void> => {
    while (queue.length > 0) {
      const now = performance.now();
      const batch = queue.splice(0).filter(({ untilMs }) => untilMs > now);
      try {
        const decisions = await stepAll(
          serverOf(key),
          key,
          batch.flatMap(({ hits }) => hits),
          clocks,
        );
        const rest = [...decisions];
        for (const { hits, resolve } of batch) resolve(rest.splice(0, hits.length));
      } catch (error) {
        for (const { reject } of batch) reject(error instanceof Error ? error : new Error(String(error)));
      }
    }
    queues.delete(key);
  };

  const applyOwn = (key: string, hits: readonly Hit[], timeoutMs: number): Promise<readonly Decision[]> =>
    new Promise((resolve, reject) => {
      const waiting = { hits, untilMs: performance.now() + timeoutMs, resolve, reject };
      const queue = queues.get(key);
      if (queue) {
        queue.push(waiting);
        return;
      }
      const started = [waiting];
      queues.set(key, started);
      work(key, started);
    });

  const applyOne: Store['apply'] = async (hits, { timeoutMs }) => {
    const [first] = hits;
    if (!first) return [];
    const key = safeKey(first.key);
    const decided = first.shared
      ? addAll(() => serverOf(key), key, hits, first.shared, clocks)
      : applyOwn(key, hits, timeoutMs);
    const outcome = await within(timeoutMs, decided);
    if ('value' in outcome) return outcome.value;
    return hits.map((): Unavailable => ({ code: 'UNAVAILABLE', reason: `memcached: ${outcome.reason}` }));
  };

  return {
    atomic: 'counter',
    apply: (hits, how) =>
      applyInParts(
        hits,
        how,
        ({ key }) => key,
        () => applyOne,
      ),
    state: () => servers.state(),
    async close() {
      servers.close();
    },
  };
}

/** Steps a counter by all hits in order, as if nobody else were there; again, if somebody was. */
async function stepAll(
  server: MemcachedClient,
  key: string,
  hits: readonly Hit[],
  { clock, dateClock }: Clocks,
): Promise<readonly Decision[]> {
  if (hits.length === 0) return [];
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const item = await server.get(key);
    const nowMs = clock();
    const before = item && unpackState(item.value);
    let state = before;
    let last: Step | undefined;
    const decisions = hits.map(({ limit, hits: count }) => {
      const { step, describe } = algorithmFor(limit);
      last = step(limit, state, nowMs, count, true);
      state = last.state;
      return describe(limit, last.report ?? last.state, nowMs, { hits: count, accepted: last.accepted, charged: true });
    });
    const ttlMs = last?.ttlMs ?? 0;
    if (isSame(before, state) || (!item && ttlMs <= 0)) return decisions; // only looks
    const value = packState(state ?? []);
    const kept = item
      ? await server.cas(key, value, exptimeOf(ttlMs, dateClock()), item.cas)
      : await server.add(key, value, exptimeOf(ttlMs, dateClock()));
    if (kept === 'STORED') return decisions;
  }
  throw new Error(`the counter was changed by others ${MAX_TRIES} times in a row`);
}

const isSame = (one: State | undefined, other: State | undefined): boolean =>
  one !== undefined && other !== undefined && one.length === other.length && one.every((n, at) => n === other[at]);

/** Adds hits, one after the other, to a decimal count that others add to as well. */
async function addAll(
  server: () => MemcachedClient,
  key: string,
  hits: readonly Hit[],
  shared: SharedWindow,
  { clock, dateClock }: Clocks,
): Promise<readonly Decision[]> {
  const decisions: Decision[] = [];
  for (const { limit, hits: count } of hits) {
    const nowMs = clock();
    const after = Math.min(await added(server(), key, count, exptimeOf(shared.ttlMs, dateClock())), MAX_COUNT);
    const accepted = count < 0 || after <= capacityOf(limit);
    decisions.push(describeShared(limit, shared, [after], nowMs, { hits: count, accepted, charged: true }));
  }
  return decisions;
}

/** The count that hits leave. A counter that comes into being between two commands is seen by the third. */
async function added(server: MemcachedClient, key: string, hits: number, exptime: number): Promise<number> {
  if (hits === 0) return countIn((await server.get(key))?.value);
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const count = await server.change(key, hits);
    if (count !== undefined) return count;
    if (hits < 0) return 0;
    if ((await server.add(key, Buffer.from(String(hits)), exptime)) === 'STORED') return hits;
  }
  throw new Error(`the counter came and went ${MAX_TRIES} times in a row`);
}

function countIn(value: Buffer | undefined): number {
  const text = value?.toString('latin1').trim() ?? '0';
  if (!/^\d+$/.test(text)) throw new Error('the counter is no number');
  return Number(text);
}

/** The longest time that memcached takes for one; what is longer, it takes for a date. */
const MAX_SPAN_S = 30 * 24 * 3600;
/** The last date that it knows, in 2038. */
const MAX_DATE_S = 2 ** 31 - 1;

/** When memcached may forget a counter: whole seconds, from now or since the epoch; at once where nothing is left to keep. */
function exptimeOf(ttlMs: number, nowMs: number): number {
  if (ttlMs <= 0) return -1;
  const seconds = Math.ceil(ttlMs / 1000);
  return seconds <= MAX_SPAN_S ? seconds : Math.min(Math.ceil(nowMs / 1000) + seconds, MAX_DATE_S);
}
