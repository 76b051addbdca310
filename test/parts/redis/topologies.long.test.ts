import { once } from 'node:events';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import { connect } from '../../../src/parts/redis/connect.ts';
import { backendConformance } from '../../engine/backends/conformance.ts';
import { openReady, ordinary } from '../../helpers/connection.ts';
import { fixedWindowOf } from '../../helpers/limits.ts';
import { operationOf } from '../../helpers/operations.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { clientOf, startWatched } from '../../helpers/redis-topologies.ts';
import { redis6Server, valkeyServer } from '../../helpers/tools.ts';
import { eventually, until } from '../../helpers/until.ts';

describe.each([
  ['Valkey', valkeyServer],
  ['Redis 6.2', redis6Server],
])('%s', (name, program) => {
  let server: Redis;
  beforeAll(async () => {
    server = await startRedis({ program: await program() });
  });
  afterAll(() => server.stop());
  backendConformance(name, async (clock) => new RedisBackend(await openReady(server), clock, { replay: true }));
});

test('stays connected to the new master when the failover is announced later', async () => {
  // cannot follow the new master, so that the failover lasts until its timeout
  const stubborn = ['--replica-priority', '0', '--rename-command', 'SLAVEOF', 'HIDDEN_SLAVEOF'];
  const watched = await startWatched('', [stubborn], { failoverMs: 8_000 });
  const operator = clientOf({ port: watched.sentinelPort });
  const listener = clientOf({ port: watched.sentinelPort });
  await listener.subscribe('+switch-master');
  const announced = once(listener, 'message');
  const sentinels = [{ host: '127.0.0.1', port: watched.sentinelPort }];
  const connection = connect({ ...ordinary, address: { kind: 'sentinel', master: watched.name, sentinels } });
  connection.on('error', () => {});
  const store = new RedisBackend(connection, Date.now);
  await eventually(() => store.health().ready);
  await watched.master.stop();
  await eventually(() => !store.health().ready);
  let isAnnounced = false;
  void announced.then(() => {
    isAnnounced = true;
  });
  await until('the connection has found the new master', () => store.health().ready);
  expect(isAnnounced).toBe(false);
  let closed = 0;
  connection.on('close', () => closed++);
  await announced;
  for (let times = 0; times < 2; times++) await operator.ping(); // the announcement has arrived everywhere
  const hit = operationOf({ key: 'counter' as CounterKey }, fixedWindowOf(20), 1, true); // any key will do
  expect(await store.run([hit], { spend: 'each', timeoutMs: 5_000 })).toMatchObject([{ code: 'OK' }]);
  expect(closed).toBe(0);
  for (const client of [operator, listener]) client.disconnect();
  await store.close();
  await watched.stop();
});
