import type { Backend, Operation } from '../../../src/engine/backends/backend.ts';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import type { RateLimitRequest } from '../../../src/engine/decide/decide.ts';
import { createDebit } from '../../../src/engine/ledger/debit.ts';
import type { Ledger } from '../../../src/engine/ledger/ledger.ts';
import { type CommitAnswer, createReservations } from '../../../src/parts/holds/reservations.ts';
import { createKuadrantLimits, type KuadrantLimits } from '../../../src/parts/kuadrant/limits.ts';
import { PlainCharges } from '../../../src/parts/kuadrant/plain-charges.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { callerOf } from '../../helpers/holds-caller.ts';
import { type ManualTimers, manualTimers, settlingLedger } from '../../helpers/ledger.ts';
import { fixedWindowOf } from '../../helpers/limits.ts';
import { rulesFrom } from '../../helpers/rules.ts';

const rules = rulesFrom(`
domain: llm
descriptors:
  - key: tenant
    descriptors:
      - {key: id, not_counted: hold, rate_limit: {unit: day, requests_per_unit: 1000, reserve: {ttl: 30s}}}
  - {key: plain, rate_limit: {unit: day, requests_per_unit: 100}}
  - {key: other, rate_limit: {unit: day, requests_per_unit: 100}}
`);

const clock = fakeClock();
const unavailable = { code: 'UNAVAILABLE', reason: 'away' } as const;

/** Calls that the store does not count, and calls that it counts but does not answer. */
let isLost: (one: Operation) => boolean;
let isUnanswered: (one: Operation) => boolean;
let timers: ManualTimers;
let ledger: Ledger;
let limits: KuadrantLimits;
beforeEach(() => {
  isLost = isUnanswered = () => false;
  timers = manualTimers();
  const inner = createMemoryBackend(clock, { maxCounters: 100 });
  const backend: Backend = {
    ...inner,
    async run(operations, how) {
      const taken = operations.filter((one) => !isLost(one));
      const replies = await inner.run(taken, how);
      return operations.map((one) => (isUnanswered(one) ? unavailable : (replies[taken.indexOf(one)] ?? unavailable)));
    },
    close: async () => {},
  };
  ledger = settlingLedger(backend, clock, { every: timers.every });
  const decider = { ...deciderOf(rules), storeBudget: () => 5_000, ledger };
  limits = createKuadrantLimits(decider, createReservations(decider));
});
afterEach(() => ledger.close());

const isCommit = ({ limit }: Operation): boolean => limit.algorithm === 'reservation';
const isPlain = (one: Operation): boolean => !isCommit(one);
const all = () => true;
const none = () => false;

const requestOf = (hits: number, ...keys: string[]): RateLimitRequest => ({
  domain: 'llm',
  descriptors: keys.map((key) => ({ entries: [{ key, value: 'a' }], hits, requestLimit: undefined })),
});
const KEYS = ['tenant', 'plain', 'other'];

async function reserve(): Promise<string> {
  const id = await limits.reserve(requestOf(20, ...KEYS), callerOf());
  if (id === undefined) throw new Error('there is room');
  return id;
}

const commit = (id: string) => limits.commit(requestOf(30, ...KEYS), id, callerOf());

/** Lets the ledger send its pending commits. */
const pass = (): Promise<void> => timers.runOnce();

/** Hits charged to each limit. */
async function charged() {
  const { verdicts } = await limits.check(requestOf(1, ...KEYS), callerOf());
  return verdicts.map((one) => (one.kind === 'limited' ? one.decision.hitsBefore : undefined));
}

const ALL_ONCE = [30, 30, 30];

test('a commit that the store could not process charges every limit once when it is repeated', async () => {
  const id = await reserve();
  isLost = all;
  await expect(commit(id)).rejects.toThrow('away');
  isLost = none;
  await pass(); // sends the commit that the ledger has kept
  expect(await charged()).toEqual([30, 0, 0]);
  expect(await commit(id)).toBe(false); // the state of the hits on hold is unknown
  expect(await commit(id)).toBe(false);
  expect(await charged()).toEqual(ALL_ONCE);
});

test('a commit repeated before the pending one is sent charges every limit once', async () => {
  const id = await reserve();
  isLost = all;
  await expect(commit(id)).rejects.toThrow('away');
  isLost = none;
  expect(await commit(id)).toBe(true);
  await pass();
  expect(await charged()).toEqual(ALL_ONCE);
});

test.each(['lost', 'unanswered'])('if only the commit is %s, the other limits are charged at once', async (how) => {
  const id = await reserve();
  if (how === 'lost') isLost = isCommit;
  else isUnanswered = isCommit;
  await expect(commit(id)).rejects.toThrow('away');
  isLost = isUnanswered = none;
  expect((await charged()).slice(1)).toEqual([30, 30]);
  await pass();
  await commit(id);
  expect(await charged()).toEqual(ALL_ONCE);
});

test('a counted commit that was not charged to the other limits is charged to them when it is repeated', async () => {
  const id = await reserve();
  isLost = isPlain;
  await expect(commit(id)).rejects.toThrow('away');
  await expect(commit(id)).rejects.toThrow('away');
  isLost = none;
  expect(await charged()).toEqual([30, 0, 0]);
  expect(await commit(id)).toBe(true); // the first commit has freed the reservation
  expect(await commit(id)).toBe(false);
  expect(await charged()).toEqual(ALL_ONCE);
});

test('only the uncharged limits are charged when a commit is repeated', async () => {
  const id = await reserve();
  isLost = ({ key }) => key.includes('other');
  await expect(commit(id)).rejects.toThrow('away');
  isLost = none;
  expect(await charged()).toEqual([30, 30, 0]);
  await commit(id);
  expect(await charged()).toEqual(ALL_ONCE);
});

test('concurrent commits charge every limit once', async () => {
  const id = await reserve();
  expect((await Promise.all([commit(id), commit(id), commit(id)])).includes(true)).toBe(true);
  expect(await charged()).toEqual(ALL_ONCE);
});

test('a commit that fails for another reason is forgotten, and charges nothing', async () => {
  await expect(limits.commit(requestOf(-1, ...KEYS), await reserve(), callerOf())).rejects.toThrow(
    'hits must be at least 0',
  );
  expect((await charged()).slice(1)).toEqual([0, 0]);
});

test('failed commits take bounded memory, and the oldest are dropped', async () => {
  const answer: CommitAnswer = { event: 'repeated', charged: 0, overrun: 0 };
  let count = 0;
  let isAway = true;
  const charges = new PlainCharges({
    storeBudget: () => 1_000,
    ledger: {
      ...{ atomic: 'counter', refund: async () => {} },
      async debit(debits) {
        if (isAway) return debits.map(() => unavailable);
        count += debits.length;
        return [];
      },
    },
  });
  const debit = createDebit({ key: 'k' as CounterKey }, { limit: fixedWindowOf(9), policy: {} }, 1, false);
  const commit = (at: number, event: CommitAnswer['event']) =>
    charges.commit({ name: `${at}`, commit: async () => ({ ...answer, event }), charges: [debit], caller: callerOf() });
  for (let at = 0; at < 6_000; at++) await expect(commit(at, 'committed')).rejects.toThrow('away');
  isAway = false;
  expect(await commit(0, 'repeated')).toEqual(answer);
  expect(count).toBe(0);
  expect(await commit(5_999, 'repeated')).toEqual({ ...answer, event: 'committed' });
  expect(count).toBe(1);
});
