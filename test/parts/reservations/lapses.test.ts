import type { Clock } from '../../../src/base/clock.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import type { Lapse } from '../../../src/engine/ledger/reservations.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { manualTimers, settlingLedger } from '../../helpers/ledger.ts';
import { fixedWindowOf, reservationOf } from '../../helpers/limits.ts';
import { heldBy, operationOf } from '../../helpers/operations.ts';
import { newKey } from '../../helpers/shared-stores.ts';

const TTL_MS = 10_000;
const limit = reservationOf(fixedWindowOf(1_000, 86_400_000), { ttlMs: TTL_MS, onLapse: 'charge' });

/** A ledger that counts in memory, maybe in that of another instance, and the lapses that it reports. */
function openLedger(
  clock = fakeClock(),
  backend = createMemoryBackend(clock, { maxCounters: 100_000 }),
  key = newKey(),
) {
  const timers = manualTimers();
  const ledger = settlingLedger(backend, clock, { every: timers.every });
  const seen: Lapse[] = [];
  ledger.lapses?.listen((lapse) => seen.push(lapse));
  const debit = (holder: number, hits: number, commits: boolean, own = key) =>
    ledger.debit(
      [{ ...heldBy(operationOf({ key: own }, limit, hits, !commits), holder), commits, kind: 'spend', policy: {} }],
      { spend: 'each', timeoutMs: 1_000 },
    );
  const reserve = (holder: number, hits: number, own?: typeof key) => debit(holder, hits, false, own);
  const commit = (holder: number, hits: number) => debit(holder, hits, true);
  return { backend, clock, timers, ledger, seen, key, reserve, commit };
}

/** Counters that cannot be reached while `isAway`. */
function awayAtTimes(clock: Clock) {
  const inner = createMemoryBackend(clock, { maxCounters: 10 });
  const run: typeof inner.run = (all, how) =>
    away.isAway ? all.map(() => ({ code: 'UNAVAILABLE', reason: 'away' }) as const) : inner.run(all, how);
  const away = { isAway: false, backend: { ...inner, run } };
  return away;
}

test('reservations that lapse are charged and reported although no request follows', async () => {
  const { backend, clock, timers, seen, key, reserve, commit } = openLedger();
  await reserve(1, 50);
  await reserve(2, 60);
  await reserve(3, 70);
  await commit(2, 5);
  clock.advance(TTL_MS - 1);
  await timers.runOnce();
  expect(seen).toEqual([]);
  clock.advance(1);
  await timers.runOnce();
  expect(seen).toEqual([{ key, limit, hits: 120, count: 2, made: 3, isUnnoticed: true }]);
  expect(backend.readState(key)).toContain(125);
  await timers.runOnce();
  expect(seen).toHaveLength(1);
});

test('lapses that a commit from an outage notices when it is sent again are reported', async () => {
  const clock = fakeClock();
  const away = awayAtTimes(clock);
  const { timers, seen, key, reserve, commit } = openLedger(clock, away.backend);
  await reserve(1, 50);
  clock.advance(TTL_MS / 2);
  await reserve(2, 60);
  away.isAway = true;
  await commit(2, 5);
  clock.advance(TTL_MS / 2);
  away.isAway = false;
  await timers.runOnce();
  expect(seen).toEqual([{ key, limit, hits: 50, count: 1, made: 2, isUnnoticed: false }]);
  clock.advance(TTL_MS);
  await timers.runOnce();
  expect(seen).toHaveLength(1);
});

test('lapses are charged and reported after an outage that is longer than the ttl', async () => {
  const clock = fakeClock();
  const away = awayAtTimes(clock);
  const { timers, seen, key, reserve } = openLedger(clock, away.backend);
  await reserve(1, 50);
  away.isAway = true;
  for (let ttls = 0; ttls < 5; ttls++) {
    clock.advance(TTL_MS);
    await timers.runOnce();
  }
  away.isAway = false;
  await timers.runOnce();
  expect(seen).toEqual([{ key, limit, hits: 50, count: 1, made: 1, isUnnoticed: true }]);
});

test('what the next request notices is reported once, and as noticed', async () => {
  const { clock, timers, seen, key, reserve } = openLedger();
  await reserve(1, 50);
  clock.advance(TTL_MS);
  await reserve(2, 60);
  await timers.runOnce();
  expect(seen).toEqual([{ key, limit, hits: 50, count: 1, made: 2, isUnnoticed: false }]);
  clock.advance(TTL_MS);
  await timers.runOnce();
  expect(seen).toHaveLength(2);
  expect(seen[1]).toMatchObject({ hits: 60, count: 1, made: 1, isUnnoticed: true });
});

test('a counter whose reservations are committed costs no further call', async () => {
  const { backend, clock, timers, reserve, commit } = openLedger();
  const run = jest.spyOn(backend, 'run');
  await reserve(1, 50);
  await commit(1, 50);
  clock.advance(TTL_MS);
  await timers.runOnce();
  expect(run).toHaveBeenCalledTimes(2);
});

test('a commit of what another instance has reserved leaves own reservations followed', async () => {
  const { backend, clock, timers, seen, key, reserve, commit } = openLedger();
  const other = openLedger(clock, backend, key);
  await other.reserve(2, 60);
  clock.advance(1);
  await reserve(1, 50);
  await commit(2, 60);
  clock.advance(TTL_MS - 1);
  await other.timers.runOnce();
  clock.advance(1);
  await timers.runOnce();
  expect([...other.seen, ...seen]).toEqual([{ key, limit, hits: 50, count: 1, made: 1, isUnnoticed: true }]);
});

test('a counter that is reset is not followed any more', async () => {
  const { clock, timers, ledger, seen, key, reserve } = openLedger();
  await reserve(1, 50);
  await ledger.forget({ key }, limit);
  clock.advance(TTL_MS);
  await timers.runOnce();
  expect(seen).toEqual([]);
});

test('counters are followed in a bounded number, and in slices', async () => {
  const { clock, timers, seen, reserve } = openLedger();
  for (let at = 0; at < 10_100; at++) await reserve(1, 1, newKey());
  clock.advance(TTL_MS);
  for (let times = 0; times < 100; times++) await timers.runOnce();
  expect(seen).toHaveLength(10_000);
});
