import type { Decision } from '../../../src/engine/algorithms/limit.ts';
import type { Backend } from '../../../src/engine/backends/backend.ts';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { createDebit, type Debit } from '../../../src/engine/ledger/debit.ts';
import type { Ledger } from '../../../src/engine/ledger/ledger.ts';
import { KeptCommits } from '../../../src/parts/reservations/pending-commits.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { countItems } from '../../helpers/iteration.ts';
import { type ManualTimers, manualTimers, settlingLedger } from '../../helpers/ledger.ts';
import { fixedWindowOf, reservationOf } from '../../helpers/limits.ts';

const TTL_MS = 30_000;
const each = { spend: 'each', timeoutMs: 1_000 } as const;
const unavailable = { code: 'UNAVAILABLE', reason: 'away' } as const;

const clock = fakeClock();
const OK: Decision = {
  ...{ code: 'OK', hitsBefore: 0, limitRemaining: 1, durationUntilResetMs: 0 },
  ...{ retryAfterMs: 0, delayMs: 0, soft: false },
};

/** How long the end of a call that is counted without an answer is waited for. */
const CALL_MS = 1_000;
/** The fate of calls: counted and answered, counted without an answer (at once, or after a while), or lost. */
let store: 'there' | 'unanswered' | 'late' | 'away';
let inner: Backend;
let ledger: Ledger;
let timers: ManualTimers;
beforeEach(() => {
  store = 'there';
  timers = manualTimers();
  inner = createMemoryBackend(clock, { maxCounters: 100 });
  const backend: Backend = {
    ...inner,
    run(operations, how) {
      if (store === 'away') return operations.map(() => unavailable);
      const replies = inner.run(operations, how);
      if (store === 'late') clock.advance(CALL_MS);
      return store === 'there' ? replies : operations.map(() => unavailable);
    },
    close: async () => {},
  };
  ledger = settlingLedger(backend, clock, { every: timers.every });
});
afterEach(() => ledger.close());

/** Lets the ledger send its pending commits. */
const pass = (): Promise<void> => timers.runOnce();

const limit = reservationOf(fixedWindowOf(100, 86_400_000), { ttlMs: TTL_MS });

const debit = (holder: number, hits: number, commits: boolean, key = 'k'): Debit => ({
  ...createDebit({ key: key as CounterKey }, { limit, policy: {} }, hits, !commits),
  kind: 'spend',
  holder,
  commits,
});
const reserve = async (holder: number, hits = 10) => ledger.debit([debit(holder, hits, false)], each);
const commit = async (holder: number, hits: number, key = 'k') => ledger.debit([debit(holder, hits, true, key)], each);

/** The charged hits of the counter, and those on hold. */
async function standing(key = 'k') {
  const [reply] = await inner.run([{ ...debit(0, 0, false, key), kind: 'peek' }], each);
  if (!reply || reply.code === 'UNAVAILABLE') throw new Error('the counter cannot be read');
  const held = reply.reservation?.held ?? 0;
  return { charged: reply.hitsBefore - held, held };
}

const counts = () => ledger.pendingCommits?.counts();

test('a commit that fails during an outage is charged once when the store is back', async () => {
  await reserve(1);
  store = 'away';
  expect(await commit(1, 7)).toEqual([unavailable]);
  await pass();
  expect(counts()).toEqual({ pending: 1, sent: 0, dropped: 0 });
  expect(await standing()).toEqual({ charged: 0, held: 10 });
  store = 'there';
  for (let times = 0; times < 3; times++) await pass();
  expect(counts()).toEqual({ pending: 0, sent: 1, dropped: 0 });
  expect(await standing()).toEqual({ charged: 7, held: 0 });
});

test('a commit that was counted without an answer is not charged again', async () => {
  await reserve(1);
  store = 'unanswered';
  await commit(1, 7);
  for (let times = 0; times < 3; times++) await pass();
  store = 'there';
  await pass();
  expect(counts()).toEqual({ pending: 0, sent: 1, dropped: 0 });
  expect(await standing()).toEqual({ charged: 7, held: 0 });
});

test.each([
  ['unanswered', 0],
  ['late', CALL_MS],
] as const)(
  'a commit that the store counted, %s, is not sent so late that the store may have forgotten it',
  async (fate, tookMs) => {
    store = fate;
    await commit(1, 7);
    store = 'unanswered';
    clock.advance(TTL_MS - CALL_MS - tookMs - 1); // sent later, it could arrive after the ttl
    await pass();
    expect(counts()).toEqual({ pending: 1, sent: 0, dropped: 0 });
    clock.advance(CALL_MS + 1);
    store = 'there';
    await pass();
    expect(counts()).toEqual({ pending: 0, sent: 0, dropped: 1 });
    expect(await standing()).toEqual({ charged: 7, held: 0 });
  },
);

test('many commits are sent in slices, and each is charged', async () => {
  store = 'away';
  for (let holder = 1; holder <= 200; holder++) await commit(holder, 1, `k${holder % 7}`);
  store = 'there';
  for (let times = 0; times < 5; times++) await pass();
  expect(counts()).toEqual({ pending: 0, sent: 200, dropped: 0 });
  const all = await Promise.all(Array.from({ length: 7 }, (_, at) => standing(`k${at}`)));
  expect(all.reduce((sum, { charged }) => sum + charged, 0)).toBe(200);
});

test('reservations, other hits and commits without an id are not kept, since a repetition would count twice', async () => {
  store = 'away';
  await commit(0, 5);
  await reserve(1);
  await ledger.debit([createDebit({ key: 'f' as CounterKey }, { limit: fixedWindowOf(9), policy: {} }, 1, true)], each);
  expect(counts()).toEqual({ pending: 0, sent: 0, dropped: 0 });
});

test('a policy that answers without the store loses no commit', async () => {
  await reserve(1);
  store = 'away';
  const policed: Debit = { ...debit(1, 7, true), policy: { onStoreFailure: 'allow' } };
  expect(await ledger.debit([policed], each)).toMatchObject([{ code: 'OK', degraded: 'allow' }]);
  store = 'there';
  await pass();
  expect(await standing()).toEqual({ charged: 7, held: 0 });
});

test('a counter that is reset drops its commits', async () => {
  store = 'away';
  await commit(1, 7);
  await commit(2, 7, 'other');
  await ledger.forget({ key: 'k' as CounterKey }, limit);
  expect(counts()).toMatchObject({ pending: 1 });
  store = 'there';
  await pass();
  expect(await standing()).toEqual({ charged: 0, held: 0 });
  expect(await standing('other')).toEqual({ charged: 7, held: 0 });
});

test('the end of the process sends the remaining commits, if the store is up', async () => {
  store = 'away';
  await commit(1, 7);
  store = 'there';
  await ledger.close();
  expect(await standing()).toEqual({ charged: 7, held: 0 });
});

test('commits without room are counted as lost, and sent ones make room', async () => {
  let isAway = true;
  const commits = new KeptCommits({
    monotonicMs: clock,
    maxBytes: 5_000,
    run: (sent) => (isAway ? sent.map(() => unavailable) : inner.run(sent, each)),
  });
  const keep = (from: number, to: number) => {
    for (let holder = from; holder < to; holder++) commits.keep([debit(holder, 1, true)], [unavailable], clock());
  };
  keep(1, 101);
  const { pending, dropped } = commits.counts();
  expect(pending).toBeGreaterThan(5);
  expect(pending + dropped).toBe(100);
  await commits.send();
  expect(commits.counts()).toEqual({ pending, sent: 0, dropped });
  isAway = false;
  await commits.send();
  keep(101, 103);
  expect(commits.counts()).toEqual({ pending: 2, sent: pending, dropped });
});

test('commits for a node that stays down do not delay others', async () => {
  const commits = new KeptCommits({
    monotonicMs: clock,
    run: (sent) => sent.map((one) => (one.key.startsWith('away') ? unavailable : OK)),
  });
  for (let holder = 1; holder <= 100; holder++) commits.keep([debit(holder, 1, true, 'away')], [unavailable], clock());
  commits.keep([debit(101, 1, true, 'there')], [unavailable], clock());
  for (let times = 0; times < 3; times++) await commits.send();
  expect(commits.counts()).toEqual({ pending: 100, sent: 1, dropped: 0 });
});

test('the work to send a slice of commits does not grow with their number', async () => {
  const itemsWith = async (count: number): Promise<number> => {
    const pending = new KeptCommits({ monotonicMs: () => 0, run: (commits) => commits.map(() => OK) });
    for (let holder = 1; holder <= count; holder++) pending.keep([debit(holder, 1, true)], [unavailable], 0);
    const items = await countItems(() => pending.send());
    expect(pending.counts()).toEqual({ pending: 0, sent: count, dropped: 0 });
    return items / count;
  };
  const few = await itemsWith(500);
  expect(await itemsWith(5_000)).toBeLessThan(2 * few);
});

test('a commit that becomes too old while others are sent is not sent', async () => {
  let nowMs = 0;
  const sent: number[] = [];
  const pending = new KeptCommits({
    monotonicMs: () => nowMs,
    run: (commits) => {
      nowMs += TTL_MS;
      sent.push(commits.length);
      return commits.map(() => OK);
    },
  });
  for (let holder = 1; holder <= 100; holder++) pending.keep([debit(holder, 1, true)], [unavailable], 0);
  await pending.send();
  expect({ ...pending.counts(), sent }).toEqual({ pending: 0, sent: [64], dropped: 36 });
});
