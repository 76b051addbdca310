import '../../helpers/realm.ts';
import { unitMs } from '../../../src/engine/algorithms/limit.ts';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import { createDebit, type Entries } from '../../../src/engine/ledger/debit.ts';
import { openStore } from '../../../src/engine/open/store.ts';
import { createLogger } from '../../../src/operate/observe/log.ts';
import { loggedCounters } from '../../../src/serve/decider/store.ts';
import { readSettings } from '../../../src/settings/settings.ts';
import { fixedWindowOf } from '../../helpers/limits.ts';
import { losses } from '../../helpers/lossy-proxy.ts';
import { type LossyStore, lossyStores } from '../../helpers/lossy-stores.ts';
import { until } from '../../helpers/until.ts';

const STORE_TIMEOUT_MS = 200;
const LIMIT = 100;
const LOCAL_SHARE = 4;
/** What the store admits, and this process without it: more than the calls in flight, so that it refuses none. */
const BOUND = LIMIT + LIMIT / LOCAL_SHARE;
const CALLS_IN_FLIGHT = 20;
const CALLS_BEFORE = 5;

/** Several for each fault, since each trial is a race. */
const keysFor = (fault: string) => Array.from({ length: 8 }, (_, at) => `${fault}-${at}`);

const limit = fixedWindowOf(LIMIT, unitMs.YEAR);
const policy = { onStoreFailure: 'local', localShare: LOCAL_SHARE } as const;
const debitFor = (key: string, count: number) =>
  createDebit({ key: key as CounterKey }, { limit, policy }, count, true); // any name will do

/** The answers to the calls for one key. */
interface Answered {
  admitted: number;
  refused: number;
}

const openLedger = async (env: LossyStore['env']) => {
  const { counters } = await readSettings({ ...env, STORE_TIMEOUT: `${STORE_TIMEOUT_MS}ms` });
  const log = createLogger({ level: 'silent', format: 'json' });
  return openStore(loggedCounters(counters, { clock: Date.now, log }));
};

/** Causes a fault while calls are in flight, and ends it when all have been answered. */
type Strike = (store: LossyStore, calls: () => Promise<unknown>) => Promise<void>;

export const faults: readonly (readonly [fault: string, strike: Strike])[] = [
  ...losses.map((loss): readonly [string, Strike] => [
    `loses ${loss}`,
    async (store, calls) => {
      store.lose(loss);
      await calls();
      store.lose(undefined);
    },
  ]),
  [
    'is stopped',
    async (store, calls) => {
      store.pause();
      await calls();
      store.resume();
    },
  ],
];

let stores: readonly LossyStore[];
beforeAll(async () => {
  stores = await Promise.all(Object.values(lossyStores).map((start) => start()));
});
afterAll(() => Promise.all(stores.map((store) => store.stop())));

/** Sends calls before, during and after a fault, until the store refuses. @returns what was answered, and counted */
async function suffer(store: LossyStore, fault: string, strike: Strike) {
  const keys = keysFor(fault.replaceAll(/\W+/g, '-'));
  const { ledger, close } = await openLedger(store.env);
  const answered = new Map(keys.map((key): [string, Answered] => [key, { admitted: 0, refused: 0 }]));
  const call = async (key: string): Promise<Entries[number] | undefined> => {
    const [answer] = await ledger.debit([debitFor(key, 1)], { spend: 'each', timeoutMs: STORE_TIMEOUT_MS });
    const counts = answered.get(key);
    if (counts) counts[answer?.code === 'OK' ? 'admitted' : 'refused']++;
    return answer;
  };
  const callAll = (times: number): Promise<unknown> =>
    Promise.all(keys.flatMap((key) => Array.from({ length: times }, () => call(key))));
  await until('the store is ready', () => ledger.health().ready);
  await callAll(CALLS_BEFORE);
  await strike(store, () => callAll(CALLS_IN_FLIGHT));
  await Promise.all(
    keys.map((key) =>
      until('the store refuses', async () => {
        const answer = await call(key);
        return answer?.code === 'OVER_LIMIT' && !answer.degraded;
      }),
    ),
  );
  await close(); // settles what was counted locally
  const counted = await countsIn(store, keys);
  return keys.map((key, at) => ({ env: store.env, key, counted: counted[at] ?? 0, ...answered.get(key) }));
}

/** Strikes all kinds of stores with these faults, one after another. */
export const testFaults = (struck: typeof faults): void =>
  test.each(struck)(
    'every kind of store counts no hit twice, and admits no more than its bound, if it %s',
    async (fault, strike) => {
      const found = (await Promise.all(stores.map((store) => suffer(store, fault, strike)))).flat();
      expect(found.filter(({ admitted = 0 }) => admitted > BOUND)).toEqual([]);
      expect(found.filter(({ counted, admitted = 0, refused = 0 }) => counted > admitted + refused)).toEqual([]);
    },
  );

/** The hits that the store has counted, by key. */
async function countsIn({ env }: LossyStore, keys: readonly string[]): Promise<readonly number[]> {
  const { ledger, close } = await openLedger(env);
  try {
    await until('the store is ready', () => ledger.health().ready);
    const peeks = keys.map((key) => debitFor(key, 0));
    const answers = await ledger.debit(peeks, { spend: 'each', timeoutMs: 60_000 });
    return answers.map((answer) => {
      if (answer.code === 'UNAVAILABLE') throw new Error(answer.reason);
      return answer.hitsBefore;
    });
  } finally {
    await close();
  }
}
