import { unitMs } from '../../../src/engine/algorithms/limit.ts';
import type { Backend, RequestOperation } from '../../../src/engine/backends/backend.ts';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import type { RedisAddress } from '../../../src/engine/open/options.ts';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import { connect } from '../../../src/parts/redis/connect.ts';
import { ordinary } from '../../helpers/connection.ts';
import { fixedWindowOf } from '../../helpers/limits.ts';
import { operationOf } from '../../helpers/operations.ts';
import { eventually } from '../../helpers/until.ts';

export const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

export type ConnectOptions = Parameters<typeof connect>[0];

/** Opens a store as the service does, ready or not. */
export function open(
  address: RedisAddress,
  options: Partial<ConnectOptions> = {},
  how: ConstructorParameters<typeof RedisBackend>[2] = {},
): RedisBackend {
  const connection = connect({ ...ordinary, ...options, address });
  connection.on('error', () => {});
  const store = new RedisBackend(connection, Date.now, how);
  closing.push(() => store.close());
  return store;
}

let counters = 0;
export const newKey = (text = ''): CounterKey => `${text}counter-${counters++}` as CounterKey; // any key will do
export const hitOn = (key: CounterKey, hits = 1): RequestOperation => {
  return operationOf({ key }, fixedWindowOf(20, unitMs.DAY), hits, true);
};
export const apply = (store: Backend, ...hits: RequestOperation[]) =>
  store.run(hits, { spend: 'each', timeoutMs: 5_000 });
/** The longest failover on a busy machine: sentinels wait when their own clock shows that they were late. */
export const FAILOVER_MS = 60_000;

export const isReady = (store: Backend) => eventually(() => store.health().ready);

/** Whether its first connection has neither succeeded nor failed yet. */
export function isNew(store: Backend): boolean {
  const state = store.health();
  return !state.ready && state.reason === 'not connected yet';
}
