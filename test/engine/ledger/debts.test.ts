import type { StoreFailurePolicy } from '../../../src/engine/algorithms/limit.ts';
import type { Backend, Operation, Reply, Settlement } from '../../../src/engine/backends/backend.ts';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { createDebit, type Debit } from '../../../src/engine/ledger/debit.ts';
import type { DebtsOptions } from '../../../src/engine/ledger/debts.ts';
import type { Ledger } from '../../../src/engine/ledger/ledger.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { countItems } from '../../helpers/iteration.ts';
import { type ManualTimers, manualTimers, settlingLedger } from '../../helpers/ledger.ts';
import { fixedWindowOf, type PolicedLimit as Limit, slidingWindowLogOf, tokenBucketOf } from '../../helpers/limits.ts';

const MINUTE_MS = 60_000;
const each = { spend: 'each', timeoutMs: 1_000 } as const;
const unavailable = { code: 'UNAVAILABLE', reason: 'away' } as const;

const clock = fakeClock();
let isAway: boolean;
/** The fate of the next settlements: counted and answered, counted without an answer, or lost. */
let settles: 'whole' | 'unanswered' | 'lost' | 'held';
let settlements: Settlement[];
let release: () => void;
let inner: Backend;
let backend: Backend;
let ledgers: Ledger[];
let timers: ManualTimers;
beforeEach(() => {
  clock.set(1_700_000_040_000); // the start of a minute
  isAway = false;
  settles = 'whole';
  settlements = [];
  ledgers = [];
  timers = manualTimers();
  inner = createMemoryBackend(clock, { maxCounters: 1_000 });
  const last = new Map<string, number>();
  backend = {
    ...inner,
    run: (operations, how) => (isAway ? operations.map(() => unavailable) : inner.run(operations, how)),
    async settle(settlement, timeoutMs) {
      if (isAway) return false;
      settlements.push(settlement);
      if (settles === 'lost') return false;
      if (settles === 'held')
        await new Promise<void>((resolve) => {
          release = resolve;
        });
      if (settlement.number > (last.get(settlement.instance) ?? 0)) await inner.settle(settlement, timeoutMs);
      last.set(settlement.instance, settlement.number);
      return settles !== 'unanswered';
    },
    health: () => (isAway ? { ready: false, reason: 'away' } : { ready: true }),
    close: async () => {},
  };
});

function instance(name = 'one', bounds: Partial<DebtsOptions> = {}): Ledger {
  const ledger = settlingLedger(backend, clock, {
    ...{ every: timers.every, instance: name },
    local: { maxCounters: 100, maxBytes: 1_000_000, instances: () => 1, ...bounds },
  });
  ledgers.push(ledger);
  return ledger;
}

/** Lets every instance settle once. */
const settle = (): Promise<void> => timers.runOnce();

const limitWith = (
  onStoreFailure?: StoreFailurePolicy,
  localShare?: number,
  limit: Limit = fixedWindowOf(6),
): Limit => ({
  ...limit,
  ...(onStoreFailure && { onStoreFailure }),
  ...(localShare && { localShare }),
});
const hit = (limit: Limit, hits = 1, key = 'k'): Debit =>
  createDebit({ key: key as CounterKey }, { limit, policy: limit }, hits, true);
const spend = async (ledger: Ledger, ...debits: Debit[]) => ledger.debit(debits, each);
const codesOf = (replies: readonly Reply[]) => replies.map(({ code }) => code);

/** The current count. */
async function stands(limit: Limit, key = 'k'): Promise<number> {
  const [reply] = await inner.run([hit(limit, 0, key)], each);
  return reply && 'hitsBefore' in reply ? reply.hitsBefore : Number.NaN;
}

/** The number of admitted hits out of `times` single hits. */
async function passing(ledger: Ledger, limit: Limit, times: number): Promise<number> {
  let passed = 0;
  for (let time = 0; time < times; time++)
    passed += codesOf(await spend(ledger, hit(limit))).filter((code) => code === 'OK').length;
  return passed;
}

test('while the store is up, it decides', async () => {
  const ledger = instance();
  for (const policy of [undefined, 'allow', 'deny', 'local'] as const) {
    const [answer] = await spend(ledger, hit(limitWith(policy), 1, `${policy}`));
    expect(answer).toMatchObject({ code: 'OK', limitRemaining: 5 });
    expect(answer).not.toHaveProperty('degraded');
  }
});

test('while the store is down, each limit follows its policy', async () => {
  const ledger = instance();
  isAway = true;
  expect(await spend(ledger, hit(limitWith('allow')))).toMatchObject([{ code: 'OK', degraded: 'allow' }]);
  expect(await spend(ledger, hit(limitWith('deny')))).toMatchObject([
    { code: 'OVER_LIMIT', degraded: 'deny', retryAfterMs: 1_000 },
  ]);
  expect(await spend(ledger, hit(limitWith('local')))).toMatchObject([
    { code: 'OK', degraded: 'local', limitRemaining: 5 },
  ]);
});

test('a request with a limit without a local share has no answer, and counts nothing', async () => {
  const ledger = instance();
  isAway = true;
  const local = limitWith('local');
  expect(codesOf(await spend(ledger, hit(local), hit(limitWith(), 1, 'other')))).toEqual([
    'UNAVAILABLE',
    'UNAVAILABLE',
  ]);
  expect(await spend(ledger, hit(local))).toMatchObject([{ limitRemaining: 5 }]);
});

test('a share of 0 admits nothing, in any number of processes', async () => {
  isAway = true;
  const limits = [tokenBucketOf(1, MINUTE_MS, { burst: 1 }), fixedWindowOf(4)];
  for (const limit of limits)
    for (const name of ['a', 'b', 'c', 'd', 'e'])
      expect(await spend(instance(name), hit(limitWith('local', 5, limit)))).toMatchObject([
        { code: 'OVER_LIMIT', retryAfterMs: 1_000 },
      ]);
});

test('a bucket admits at most its own size and refill plus those of the shares', async () => {
  const limit = limitWith('local', 2, tokenBucketOf(60, MINUTE_MS, { burst: 10 }));
  const processes = [instance('a'), instance('b')];
  let passed = 0;
  for (let outage = 0; outage < 30; outage++) {
    isAway = outage % 2 === 0;
    for (const process of processes) passed += await passing(process, limit, 10);
    await settle();
    clock.advance(1_000);
  }
  expect(passed).toBeLessThanOrEqual(10 + 30 + 2 * (5 + 15));
});

test('local counts are added to the store once when the store is back', async () => {
  const ledger = instance();
  const limit = limitWith('local');
  await spend(ledger, hit(limit, 2));
  isAway = true;
  await spend(ledger, hit(limit, 3));
  isAway = false;
  await settle();
  expect(await stands(limit)).toBe(5);
  isAway = true;
  await spend(ledger, hit(limit, 1)); // a second outage adds only its own hits to the debts
  isAway = false;
  await settle();
  expect(await stands(limit)).toBe(6);
  expect(await spend(ledger, hit(limit))).toMatchObject([{ code: 'OVER_LIMIT' }]);
});

test('a settlement that was counted without an answer is sent again with its number, and counted once', async () => {
  const ledger = instance();
  const limit = limitWith('local');
  isAway = true;
  await spend(ledger, hit(limit, 3));
  isAway = false;
  settles = 'unanswered';
  for (let time = 0; time < 4; time++) await settle();
  isAway = true;
  await spend(ledger, hit(limit, 2)); // settled together with the next one
  isAway = false;
  await settle();
  settles = 'whole';
  await settle();
  await settle();
  expect(settlements.map(({ number }) => number)).toEqual([1, 1, 1, 1, 1, 1, 2]);
  expect(await stands(limit)).toBe(5);
});

test('nothing is settled before the store has answered a peek', async () => {
  const ledger = instance();
  isAway = true;
  await spend(ledger, hit(limitWith('local'), 3));
  backend.health = () => ({ ready: true });
  const asked = jest.spyOn(backend, 'settle');
  await settle();
  expect(asked).not.toHaveBeenCalled();
});

test('debts that arise during a settlement, or are put back, are settled at the end', async () => {
  const ledger = instance();
  const limit = limitWith('local');
  isAway = true;
  await spend(ledger, hit(limit, 1));
  isAway = false;
  settles = 'held';
  await settle();
  isAway = true;
  await spend(ledger, hit(limit, 2), hit(limit, 1, 'other'));
  isAway = false;
  settles = 'whole';
  const closed = ledger.close();
  await settle();
  release();
  await closed;
  expect([await stands(limit), await stands(limit, 'other')]).toEqual([3, 1]);
});

test('local counts of a past window are not settled', async () => {
  const ledger = instance();
  const limit = limitWith('local');
  isAway = true;
  await spend(ledger, hit(limit, 6));
  clock.advance(MINUTE_MS);
  isAway = false;
  await settle();
  expect(await stands(limit)).toBe(0);
  expect(settlements).toEqual([]);
});

describe('a request that spends all or nothing', () => {
  test('is not charged to its local limit if its other one denies', async () => {
    const ledger = instance();
    isAway = true;
    const limit = limitWith('local');
    const set = [hit(limit), hit(limitWith('deny'), 1, 'other')];
    const answers = await ledger.debit(set, { ...each, spend: 'all_or_nothing' });
    expect(answers).toMatchObject([{ code: 'OK', limitRemaining: 6 }, { code: 'OVER_LIMIT' }]);
    isAway = false;
    await settle();
    expect(await stands(limit)).toBe(0);
  });

  test('has no debts if one of its local limits refuses', async () => {
    const ledger = instance();
    isAway = true;
    const [wide, narrow] = [limitWith('local'), limitWith('local', 2)];
    for (let time = 0; time < 5; time++)
      await ledger.debit([hit(wide), hit(narrow, 1, 'narrow')], { ...each, spend: 'all_or_nothing' });
    isAway = false;
    await settle();
    expect([await stands(wide), await stands(narrow, 'narrow')]).toEqual([3, 3]);
  });
});

describe.each(['local', 'allow', 'deny'] as const)('with %s, hits refunded during an outage', (policy) => {
  test('are refunded in the store when it is back', async () => {
    const ledger = instance();
    const limit = limitWith(policy);
    await spend(ledger, hit(limit, 4));
    isAway = true;
    expect(await spend(ledger, hit(limit, -3))).toMatchObject([{ code: 'OK', degraded: policy }]);
    isAway = false;
    await settle();
    expect(await stands(limit)).toBe(1);
  });

  test('are not refunded in the next window', async () => {
    const ledger = instance();
    const limit = limitWith(policy);
    isAway = true;
    await spend(ledger, hit(limit, -3));
    clock.advance(MINUTE_MS);
    isAway = false;
    await spend(ledger, hit(limit, 4));
    await settle();
    expect(await stands(limit)).toBe(4);
  });
});

const longKeys = (name: string): readonly string[] =>
  Array.from({ length: 300 }, (_, at) => `${name} ${at}`.padStart(440, 'x'));

test('long keys that are counted locally are forgotten beyond their maximum bytes', async () => {
  const ledger = instance('one', { maxCounters: 1_000_000, maxBytes: 100_000 });
  const limit = limitWith('local');
  isAway = true;
  for (const key of longKeys('a')) await spend(ledger, hit(limit, 1, key));
  const entries = await spend(
    ledger,
    ...longKeys('a')
      .map((key) => hit(limit, 0, key))
      .toReversed(),
  );
  const remembered = entries.filter((entry) => 'hitsBefore' in entry && entry.hitsBefore === 1);
  expect(remembered.length).toBeGreaterThan(50);
  expect(remembered.length).toBeLessThan(100);
});

test('debts cost at most their maximum bytes, and settled ones make room for others', async () => {
  const ledger = instance('one', { maxCounters: 1_000_000, maxBytes: 200_000 });
  const limit = limitWith('local');
  const settledOf = async (name: string): Promise<number> => {
    isAway = true;
    for (const key of longKeys(name)) await spend(ledger, hit(limit, 1, key));
    isAway = false;
    for (let time = 0; time < 10; time++) await settle();
    const counts = await Promise.all(longKeys(name).map((key) => stands(limit, key)));
    return counts.filter((count) => count === 1).length;
  };
  const first = await settledOf('first');
  expect(first).toBeGreaterThan(100);
  expect(first).toBeLessThan(150);
  expect(await settledOf('second')).toBe(first);
});

test.each([
  ['one node', () => ''],
  ['a node for each counter', ({ key }: Operation) => key],
])('debts of past windows make room for others while %s is down', async (_, shardOf) => {
  backend = { ...backend, shardOf };
  const ledger = instance('one', { maxCounters: 100 });
  const limit = limitWith('local');
  isAway = true;
  const countAll = async (name: string): Promise<void> => {
    for (let at = 0; at < 100; at++) await spend(ledger, hit(limit, 1, `${name}-${at}`));
  };
  await countAll('first');
  await settle();
  clock.advance(MINUTE_MS);
  await settle();
  await countAll('second');
  isAway = false;
  for (let time = 0; time < 10; time++) await settle();
  const counts = await Promise.all(Array.from({ length: 100 }, (_, at) => stands(limit, `second-${at}`)));
  expect(counts).toEqual(Array(100).fill(1));
});

test('debts of a node are settled while others, with more of them, are down', async () => {
  const isDown = ({ key }: Pick<Operation, 'key'>): boolean => key.startsWith('down');
  const { run, settle: send } = backend;
  backend = {
    ...backend,
    shardOf: ({ key }) => key,
    run: (operations, how) => (operations.some(isDown) ? operations.map(() => unavailable) : run(operations, how)),
    settle: async (one, timeoutMs) => !one.operations.some(isDown) && send(one, timeoutMs),
    health: () => ({ ready: false, reason: 'a node is down' }),
  };
  const ledger = instance('one', { maxCounters: 1_000 });
  const limit = limitWith('local');
  isAway = true;
  for (let at = 0; at < 500; at++) await spend(ledger, hit(limit, 1, `down-${at}`));
  await spend(ledger, hit(limit));
  isAway = false;
  for (let time = 0; time < 10; time++) await settle();
  expect(await stands(limit)).toBe(1);
});

test('settlements of a node without debts for a while continue with higher numbers', async () => {
  const ledger = instance();
  const limit = limitWith('local');
  for (let outage = 0; outage < 3; outage++) {
    isAway = true;
    await spend(ledger, hit(limit, 1));
    isAway = false;
    for (let time = 0; time < 3; time++) await settle();
  }
  expect(settlements.map(({ number }) => number)).toEqual([1, 2, 3]);
  expect(await stands(limit)).toBe(3);
});

test('a log that outgrows the memory for debts keeps its previous debts', async () => {
  const ledger = instance('one', { maxBytes: 4_000 });
  const limit = limitWith('local', undefined, slidingWindowLogOf(1_000));
  isAway = true;
  for (let hits = 0; hits < 300; hits++) {
    clock.advance(1);
    await spend(ledger, hit(limit));
  }
  isAway = false;
  await settle();
  const settled = await stands(limit);
  expect(settled).toBeGreaterThan(50);
  expect(settled).toBeLessThan(150);
});

test('a process that stops settles its debts if the store is up', async () => {
  const ledger = instance();
  const limit = limitWith('local');
  isAway = true;
  const keys = Array.from({ length: 100 }, (_, at) => `key-${at}`);
  await spend(ledger, ...keys.map((key) => hit(limit, 2, key)));
  isAway = false;
  await ledger.close();
  for (const key of keys) expect(await stands(limit, key)).toBe(2);
});

test('a process that stops while the store is down does not wait for it', async () => {
  const ledger = instance();
  isAway = true;
  await spend(ledger, hit(limitWith('local')));
  await ledger.close();
});

test('a process that stops while a settlement hangs does not wait for it', async () => {
  const ledger = instance();
  isAway = true;
  await spend(ledger, hit(limitWith('local')));
  isAway = false;
  settles = 'held';
  await ledger.close();
  expect(settlements).toHaveLength(1);
});

test('a report beyond the limit is settled completely once the store is back', async () => {
  const ledger = instance();
  const limit = limitWith('local', undefined, tokenBucketOf(60, 60_000, { burst: 10 }));
  const report = createDebit({ key: 'k' as CounterKey }, { limit, policy: limit }, 500, true, true);
  isAway = true;
  expect(await spend(ledger, report)).toMatchObject([{ code: 'OVER_LIMIT', degraded: 'local' }]);
  isAway = false;
  await settle();
  await settle();
  expect(await stands(limit)).toBe(500);
});

test('a settlement does not copy the list of debts', async () => {
  const [limit, count] = [limitWith('local'), 1_000];
  const ledger = instance('one', { maxCounters: count });
  isAway = true;
  for (let at = 0; at < count; at++) await spend(ledger, hit(limit, 1, `${at}`));
  isAway = false;
  expect(await countItems(settle)).toBeLessThan(1.5 * count); // each is checked for expiry
  expect(settlements.map(({ operations }) => operations.length)).toEqual([64]);
});

test('a timer runs only while there is something to settle', async () => {
  const ledger = instance();
  expect(timers.count()).toBe(0);
  isAway = true;
  await spend(ledger, hit(limitWith('local')));
  await settle();
  expect(timers.count()).toBe(1);
  isAway = false;
  await settle();
  await settle();
  expect(timers.count()).toBe(0);
});
