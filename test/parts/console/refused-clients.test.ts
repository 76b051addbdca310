import '../../helpers/realm.ts';
import { RefusedClients } from '../../../src/parts/console/refused-clients.ts';
import type { RefusedTop } from '../../../src/parts/lab/sketches/rule-top.ts';
import { encodedEntries } from '../../../src/parts/lab/sketches/top-name.ts';

const NOW_MS = 1_700_000_000_000;
const MINUTE_MS = 60_000;

const entriesOf = (value: string) => [{ key: 'user', value }];

/** One process's list for a rule: the refused requests of each user, who sent twice as many hits. */
const listOf = (requests: Readonly<Record<string, number>>): RefusedTop => ({
  rule: 'demo.user',
  by: 'refused_requests',
  countedOneIn: 1,
  list: {
    entries: Object.entries(requests).map(([user, count]) => ({
      key: encodedEntries(entriesOf(user)),
      count,
      error: 0,
    })),
    total: Object.values(requests).reduce((sum, count) => sum + count, 0),
    unlistedAtMost: 0,
  },
  hits: Object.values(requests).map((count) => [count, 2 * count]),
});

test('clients are summed over all processes, those with the most refused requests first', () => {
  const clients = new RefusedClients(undefined);
  clients.note([[listOf({ ann: 2, ben: 1 })], [listOf({ ben: 4 })]], NOW_MS);
  expect(clients.top(5, NOW_MS)).toMatchObject([
    { rule: 'demo.user', descriptor: 'user=ben', requests: 5, refusedShare: 0.5, sinceMs: NOW_MS },
    { descriptor: 'user=ann', requests: 2 },
  ]);
  expect(clients.count).toEqual({ clients: 2, isAtLeast: false });
});

test('a client is refused since its first refusal, until it was refused nothing for five minutes', () => {
  const clients = new RefusedClients(undefined);
  const sinceAt = (nowMs: number): number | undefined => {
    clients.note([[listOf({ ann: 1 })]], nowMs);
    return clients.top(1, nowMs)[0]?.sinceMs;
  };
  sinceAt(NOW_MS);
  clients.note([[]], NOW_MS + MINUTE_MS);
  expect(clients.top(1, NOW_MS + MINUTE_MS)).toEqual([]);
  expect(sinceAt(NOW_MS + 5 * MINUTE_MS)).toBe(NOW_MS);
  expect(sinceAt(NOW_MS + 11 * MINUTE_MS)).toBe(NOW_MS + 11 * MINUTE_MS);
});

test('the history of a client has its refused requests per second', () => {
  const clients = new RefusedClients(undefined);
  clients.note([[listOf({ ann: 120 })]], NOW_MS);
  clients.step(NOW_MS);
  expect(clients.refusedOf('demo.user', entriesOf('ann'), '60s')).toEqual([12]); // all in ten seconds
  for (let second = 61; second <= 79; second++) clients.step(NOW_MS + second * 1_000);
  expect(clients.refusedOf('demo.user', entriesOf('ann'), '10m')).toEqual([3, 2]);
  expect(clients.refusedOf('demo.user', entriesOf('ben'), '10m')).toBeUndefined();
});

test('many clients take bounded memory, and those refused now stay', () => {
  const clients = new RefusedClients(undefined);
  clients.note([[listOf(Object.fromEntries(Array.from({ length: 200 }, (_, at) => [`old${at}`, 9])))]], NOW_MS);
  clients.note([[listOf({ ann: 1, ben: 1 })]], NOW_MS + 1_000);
  const known = Array.from({ length: 200 }, (_, at) => clients.refusedOf('demo.user', entriesOf(`old${at}`), '60s'));
  expect(known.filter((series) => series !== undefined)).toHaveLength(198);
  expect(clients.count.clients).toBe(2);
});

test('a client that was not refused for a day is forgotten', () => {
  const clients = new RefusedClients(undefined);
  clients.note([[listOf({ ann: 1 })]], NOW_MS);
  clients.step(NOW_MS + 24 * 60 * MINUTE_MS + 1);
  expect(clients.refusedOf('demo.user', entriesOf('ann'), '60s')).toBeUndefined();
});

test('values are shown as hashes, and have no entries', () => {
  const clients = new RefusedClients((value) => `#${value.length}`);
  clients.note([[listOf({ ann: 1 })]], NOW_MS);
  const [client] = clients.top(1, NOW_MS);
  expect(client).toMatchObject({ descriptor: 'user=#3' });
  expect(client).not.toHaveProperty('entries');
});
