import type { Redis as Connection } from 'ioredis';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import { RedisInvalidations } from '../../../src/parts/redis/invalidations.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { openReady } from '../../helpers/connection.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { until } from '../../helpers/until.ts';

/** What instances tell each other on a real Redis; time stands still, so that no beat ever comes too late. */

let server: Redis;
let operator: Connection;
let connections: Connection[];
let opened: RedisInvalidations[];
beforeAll(async () => {
  server = await startRedis();
  operator = await openReady(server);
});
beforeEach(() => {
  connections = [];
  opened = [];
});
afterEach(() => {
  for (const one of opened) one.close();
  for (const connection of connections) connection.disconnect();
});
afterAll(async () => {
  operator.disconnect();
  await server.stop();
});

/** An instance that hears its changes, and what it has heard. */
async function instance() {
  const heard: string[] = [];
  const connection = await openReady(server);
  const listener = {
    changed: (key: CounterKey) => heard.push(`changed ${key}`),
    forgotten: (key: CounterKey) => heard.push(`forgotten ${key}`),
    missed: () => heard.push('missed'),
  };
  const invalidations = new RedisInvalidations(connection, { prefix: 'p:', listener, monotonicMs: fakeClock() });
  connections.push(connection);
  opened.push(invalidations);
  await until('its own beat', () => invalidations.isLive());
  return { heard, invalidations, connection };
}

const key = 'k' as CounterKey; // as good as any

test('changes of another instance arrive, and none of its own', async () => {
  const [one, other] = [await instance(), await instance()];
  one.invalidations.publish('changed', key);
  one.invalidations.publish('forgotten', key);
  await until('both changes', () => other.heard.length === 3);
  expect(other.heard).toEqual(['missed', 'changed k', 'forgotten k']);
  expect(one.heard).toEqual(['missed']);
});

test('an instance whose subscription was lost has missed changes, however soon it is back', async () => {
  const { heard } = await instance();
  const change = JSON.stringify({ from: 'another', changed: [key] });
  await operator.multi().call('CLIENT', 'KILL', 'TYPE', 'pubsub').publish('p:weir|changes', change).exec(); // at once
  await until('changes to arrive again', () => heard.length > 1);
  expect(heard).toEqual(['missed', 'missed']);
});

describe('an instance whose connection is lost as it publishes', () => {
  async function publishDuringLoss(...keys: readonly string[]): Promise<readonly string[]> {
    const [{ connection, invalidations }, other] = [await instance(), await instance()];
    const id = await connection.client('ID');
    await operator.call('CLIENT', 'KILL', 'ID', String(id)); // it does not know yet
    for (const one of keys) invalidations.publish('changed', one as CounterKey);
    await until('a message', () => other.heard.length > 1);
    return other.heard.slice(1);
  }

  test('publishes again once it is connected', async () => {
    expect(await publishDuringLoss('k', 'l')).toEqual(['changed k', 'changed l']);
  });

  test('announces only that much has changed if it is too much to keep', async () => {
    const keys = Array.from({ length: 5_000 }, (_, at) => `key-${at}`);
    expect(await publishDuringLoss(...keys)).toEqual(['missed']);
  });
});

test('a change without a connection is published once there is one', async () => {
  const [{ connection, invalidations }, other] = [await instance(), await instance()];
  connection.disconnect();
  await until('no connection', () => connection.status === 'end');
  invalidations.publish('forgotten', key);
  await new Promise((resolve) => setTimeout(resolve, 300)); // longer than between two beats
  await connection.connect();
  await until('the change', () => other.heard.includes('forgotten k'));
});
