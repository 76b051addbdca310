import type { Eventual } from '../../../src/base/later.ts';
import type { Operation, Replies, RunOptions } from '../../../src/engine/backends/backend.ts';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { createDebit, type Debit } from '../../../src/engine/ledger/debit.ts';
import type { Ledger } from '../../../src/engine/ledger/ledger.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { backendThat, type ManualTimers, manualTimers, settlingLedger } from '../../helpers/ledger.ts';
import { fixedWindowOf, inFlightOf, type PolicedLimit as Limit } from '../../helpers/limits.ts';

const each = { spend: 'each', timeoutMs: 1_000 } as const;
/** The replies to a request that an overloaded process could not send, or sent and had no time to read. */
const overloads = {
  unsent: { code: 'UNAVAILABLE', reason: 'too many requests wait', isOverload: true },
  unread: { code: 'UNAVAILABLE', reason: 'no reply', isOverload: true, isUnknown: true },
} as const;

const clock = fakeClock();
let overload: keyof typeof overloads | undefined;
let instances: number;
let asked: number;
let isSilent: boolean;
let timers: ManualTimers;
let store: ReturnType<typeof createMemoryBackend>;
let ledger: Ledger;
beforeEach(() => {
  clock.set(1_700_000_040_000); // the start of a minute
  overload = undefined;
  instances = 1;
  asked = 0;
  isSilent = false;
  timers = manualTimers();
  store = createMemoryBackend(clock, { maxCounters: 1_000 });
  const run = (operations: readonly Operation[], how: RunOptions): Eventual<Replies> => {
    asked++;
    if (overload === undefined || operations.every(({ kind }) => kind === 'peek')) return store.run(operations, how);
    if (overload === 'unread') void store.run(operations, how);
    return operations.map(() => overloads[overload ?? 'unsent']);
  };
  ledger = settlingLedger(
    backendThat(run, {
      settle: (settlement, timeoutMs) => store.settle(settlement, timeoutMs),
      isSilent: ({ key }) => isSilent && key !== 'elsewhere',
    }),
    clock,
    { every: timers.every, local: { maxCounters: 100, maxBytes: 1_000_000, instances: () => instances } },
  );
});
afterEach(() => ledger.close());

const hit = (limit: Limit, key = 'k', hits = 1): Debit =>
  createDebit({ key: key as CounterKey }, { limit, policy: limit }, hits, true); // any key will do
const spend = async (...debits: Debit[]) => ledger.debit(debits, each);
const codes = async (times: number, limit: Limit): Promise<string> => {
  let found = '';
  for (let time = 0; time < times; time++)
    for (const { code } of await spend(hit(limit))) found += code === 'OK' ? '+' : code === 'OVER_LIMIT' ? '-' : '?';
  return found;
};
async function stored(limit: Limit): Promise<number> {
  const [reply] = await store.run([hit(limit, 'k', 0)], each);
  return reply && 'hitsBefore' in reply ? reply.hitsBefore : Number.NaN;
}

test('an overloaded process counts by itself, and settles in the store what it never sent', async () => {
  const limit = fixedWindowOf(4);
  overload = 'unsent';
  expect(await codes(6, limit)).toBe('++++--');
  overload = undefined;
  await timers.runOnce();
  expect(await stored(limit)).toBe(4);
});

test('hits that were sent are never settled, since the store may have counted them', async () => {
  const limit = fixedWindowOf(4);
  overload = 'unread';
  expect(await codes(2, limit)).toBe('++');
  const [last] = await ledger.debit([hit(limit)], { ...each, receipts: true });
  expect(last).toMatchObject({ code: 'OK', degraded: 'local' });
  expect(last).not.toHaveProperty('receipt'); // a refund might give back hits that the store has not counted
  overload = undefined;
  await timers.runOnce();
  expect(await stored(limit)).toBe(3);
});

test('a refusal by the store is repeated by the overloaded process, for as long as it would last', async () => {
  const limit = fixedWindowOf(2);
  expect(await codes(3, limit)).toBe('++-');
  overload = 'unsent';
  expect(await codes(2, limit)).toBe('--');
  expect(await spend(hit(limit))).toMatchObject([{ degraded: 'local', limitRemaining: 0 }]);
  clock.advance(60_000);
  expect(await codes(3, limit)).toBe('++-');
});

test('each process has its part of the limit, and at least one hit', async () => {
  overload = 'unsent';
  instances = 3;
  expect(await codes(5, fixedWindowOf(7))).toBe('++---');
  instances = 50;
  expect(await codes(3, { ...fixedWindowOf(8), counter: 'other' })).toBe('---'); // the key has taken its part
  clock.advance(60_000);
  expect(await codes(3, fixedWindowOf(8))).toBe('+--');
});

test('a local_share of the rule goes before the number of processes', async () => {
  overload = 'unsent';
  instances = 50;
  expect(await codes(5, { ...fixedWindowOf(6), localShare: 2 })).toBe('+++--');
});

test.each([undefined, 'allow', 'deny'] as const)(
  'on_overload: error treats it as a failure of the store: on_store_failure %p',
  async (onStoreFailure) => {
    overload = 'unsent';
    const limit: Limit = { ...fixedWindowOf(4), onOverload: 'error', ...(onStoreFailure && { onStoreFailure }) };
    expect(await codes(1, limit)).toBe({ allow: '+', deny: '-', error: '?' }[onStoreFailure ?? 'error']);
  },
);

test('slots in flight are never counted by one process alone', async () => {
  overload = 'unsent';
  expect(await codes(1, inFlightOf(4))).toBe('?');
});

describe('while the store is silent', () => {
  const full: Limit = { ...fixedWindowOf(2), onStoreFailure: 'local' };
  const free: Limit = { ...fixedWindowOf(9), onStoreFailure: 'local' };

  test('a known refusal is repeated without asking, if the rule lets this process decide', async () => {
    expect(await codes(3, full)).toBe('++-');
    isSilent = true;
    expect(await spend(hit(full), hit(free, 'other'))).toMatchObject([
      { code: 'OVER_LIMIT', degraded: 'local' },
      { code: 'OK', degraded: 'local' },
    ]);
    expect(asked).toBe(3);
    clock.advance(60_000);
    expect(await codes(3, full)).toBe('++-');
    expect(asked).toBe(6);
  });

  test.each([undefined, 'allow', 'deny'] as const)(
    'a known refusal is repeated without asking, whatever on_store_failure says: %p',
    async (onStoreFailure) => {
      const limit: Limit = { ...fixedWindowOf(2), ...(onStoreFailure && { onStoreFailure }) };
      expect(await codes(3, limit)).toBe('++-');
      isSilent = true;
      expect(await spend(hit(limit), hit(fixedWindowOf(9), 'other'))).toMatchObject([
        { code: 'OVER_LIMIT', fromCache: true },
        { code: 'OK' },
      ]);
      expect(asked).toBe(3);
    },
  );

  test.each<[string, () => Debit[]]>([
    ['another limit refused', () => [hit(fixedWindowOf(3))]],
    ['the hits fit', () => [hit(free, 'other')]],
    ['the counter is on another node', () => [hit(full, 'elsewhere')]],
    ['the limit only watches', () => [{ ...hit(full), blocks: false }]],
  ])('the store is asked if %s', async (_why, request) => {
    for (const key of ['k', 'elsewhere']) for (let time = 0; time < 3; time++) await spend(hit(full, key));
    isSilent = true;
    asked = 0;
    await spend(...request());
    expect(asked).toBe(1);
  });
});

test.each([-3, 0])('a request with %d ms left is not sent, and counted here', async (timeoutMs) => {
  const limit = fixedWindowOf(2);
  const late = { spend: 'each', timeoutMs } as const;
  for (const code of ['OK', 'OK', 'OVER_LIMIT'])
    expect(await ledger.debit([hit(limit)], late)).toMatchObject([{ code, degraded: 'local' }]);
  expect(asked).toBe(0);
});

test('a known refusal of one limit spares the others of a request that spends as a set', async () => {
  const [full, free] = [fixedWindowOf(1), fixedWindowOf(3)];
  await spend(hit(full, 'full'), hit(full, 'full'));
  await spend(hit(full, 'full'));
  overload = 'unsent';
  const set = { spend: 'all_or_nothing', timeoutMs: 1_000 } as const;
  for (let time = 0; time < 5; time++)
    expect(await ledger.debit([hit(full, 'full'), hit(free, 'free')], set)).toMatchObject([
      { code: 'OVER_LIMIT' },
      { code: 'OK', limitRemaining: 3 },
    ]);
});

describe('while the store fails', () => {
  const failing = (keepsRefusals: boolean): Ledger => {
    let isAway = false;
    const run = (operations: readonly Operation[], how: RunOptions): Eventual<Replies> => {
      if (isAway) return operations.map(() => ({ code: 'UNAVAILABLE', reason: 'away' }) as const);
      isAway = operations.some(({ key }) => key === 'last');
      return store.run(operations, how);
    };
    const options = { maxCounters: 100, maxBytes: 1_000_000, instances: () => 1 };
    return settlingLedger(backendThat(run), clock, { every: timers.every, keepsRefusals, local: options });
  };
  const policies = [undefined, 'allow', 'deny'] as const;

  test.each(policies)('what is known to be refused stays so, whatever on_store_failure says: %p', async (policy) => {
    const keeping = failing(true);
    const limit: Limit = { ...fixedWindowOf(2), ...(policy && { onStoreFailure: policy }) };
    for (const key of ['k', 'k', 'k', 'last']) await keeping.debit([hit(limit, key)], each);
    for (let time = 0; time < 3; time++)
      expect(await keeping.debit([hit(limit)], each)).toMatchObject([{ code: 'OVER_LIMIT', fromCache: true }]);
    const unknown = { allow: 'OK', deny: 'OVER_LIMIT', error: 'UNAVAILABLE' }[policy ?? 'error'];
    expect(await keeping.debit([hit(limit, 'other')], each)).toMatchObject([{ code: unknown }]);
    clock.advance(60_000); // its window ends
    expect(await keeping.debit([hit(limit)], each)).toMatchObject([{ code: unknown }]);
    await keeping.close();
  });

  test('a request that is known to be refused can be answered without the store, and another cannot', async () => {
    const keeping = failing(true);
    const limit = fixedWindowOf(2);
    for (const key of ['k', 'k', 'k']) await keeping.debit([hit(limit, key)], each);
    expect(keeping.recall([hit(limit), hit(limit, 'other')], 'each')).toMatchObject([
      { code: 'OVER_LIMIT', fromCache: true },
      { code: 'OK', degraded: 'allow' },
    ]);
    expect(keeping.recall([hit(limit, 'other')], 'each')).toBeUndefined();
    await keeping.close();
  });

  test('on_store_failure alone decides if refusals are not kept', async () => {
    const forgetting = failing(false);
    const limit = fixedWindowOf(2);
    for (const key of ['k', 'k', 'k', 'last']) await forgetting.debit([hit(limit, key)], each);
    expect(await forgetting.debit([hit(limit)], each)).toMatchObject([{ code: 'UNAVAILABLE' }]);
    await forgetting.close();
  });
});

describe('in a burst of one key', () => {
  const opened = (changes: Parameters<typeof settlingLedger>[2] = {}) => {
    let asked = 0;
    const run = (operations: readonly Operation[], how: RunOptions): Eventual<Replies> => {
      asked += operations.length;
      return store.run(operations, how);
    };
    const own = settlingLedger(backendThat(run), clock, { every: timers.every, ...changes });
    const refuse = async (times: number, how: RunOptions = each): Promise<number> => {
      const before = asked;
      for (let time = 0; time < times; time++)
        expect(await own.debit([hit(fixedWindowOf(2))], how)).toMatchObject([{ code: 'OVER_LIMIT' }]);
      return asked - before;
    };
    return { own, refuse };
  };

  test('the store is asked once a second after it has refused several requests', async () => {
    const { own, refuse } = opened();
    await own.debit([hit(fixedWindowOf(2))], each);
    await own.debit([hit(fixedWindowOf(2))], each);
    expect(await refuse(16)).toBe(16);
    expect(await refuse(1_000)).toBe(0);
    expect(await refuse(3, { ...each, receipts: true })).toBe(3); // they need the store's time
    clock.advance(1_000);
    expect(await refuse(1_000)).toBe(1);
    own.recheck(hit(fixedWindowOf(2)).key);
    expect(await refuse(1)).toBe(1);
    await own.close();
  });

  test('the store is asked for each request if refusals are not kept', async () => {
    const { own, refuse } = opened({ keepsRefusals: false });
    await own.debit([hit(fixedWindowOf(2))], each);
    await own.debit([hit(fixedWindowOf(2))], each);
    expect(await refuse(100)).toBe(100);
    await own.close();
  });
});
