import fc from 'fast-check';
import { CallerMemory } from '../../../src/h2/bounds/caller-memory.ts';
import { ConnectionLimit } from '../../../src/h2/bounds/connection-limit.ts';
import { peerName } from '../../../src/h2/listen/listener.ts';

interface Connection {
  readonly peer: string;
  isInUse: boolean;
}

const MINUTE_MS = 60_000;

let nowMs: number;
let ended: Connection[];
let limit: ConnectionLimit<Connection>;

beforeEach(() => {
  nowMs = 0;
  ended = [];
  limit = new ConnectionLimit(10, () => nowMs, retire);
});

function retire(connection: Connection): boolean {
  if (connection.isInUse) return false;
  limit.remove(connection);
  ended.push(connection);
  return true;
}

function add(peer: string): Connection {
  const connection = { peer, isInUse: false };
  limit.add(connection);
  return connection;
}

/** A connection whose requests have been answered. */
function addServed(peer: string): Connection {
  const connection = add(peer);
  limit.mark(connection, false);
  limit.mark(connection, true);
  return connection;
}

test('ends a connection of the peer that has most, even if those of others have been idle longer', () => {
  for (const peer of ['one', 'two', 'two']) addServed(peer);
  const many = Array.from({ length: 7 }, () => addServed('many'));
  expect(limit.isFull).toBe(true);
  for (let count = 0; count < 4; count++) expect(limit.retireOne()).toBe(true);
  expect(ended).toEqual(many.slice(0, 4));
  expect(limit.isFull).toBe(false);
});

test('no peer loses its only connection within ten minutes of a request', () => {
  const kept = ['one', 'two', 'three'].map(addServed);
  nowMs += MINUTE_MS;
  const flood = ['four', 'five'].map(add);
  while (limit.retireOne());
  expect(ended).toEqual(flood);
  nowMs += 9 * MINUTE_MS;
  while (limit.retireOne());
  expect(ended).toEqual([...flood, ...kept]);
});

test('a peer keeps one of several connections after requests', () => {
  for (let count = 0; count < 5; count++) addServed('one');
  while (limit.retireOne());
  expect(ended).toHaveLength(4);
});

test('a connection in use is not ended, and does not hide those of its peer that are idle', () => {
  const busy = addServed('one');
  busy.isInUse = true;
  const idle = addServed('one');
  expect(limit.retireOne()).toBe(true);
  expect(ended).toEqual([idle]);
  expect(limit.retireOne()).toBe(false);
  busy.isInUse = false;
  limit.mark(busy, true);
  expect(limit.retireOne()).toBe(false);
});

test('the connection that is ended belongs to a peer with at least half as many as any other, for any use of connections', () => {
  const step = fc.record({
    peer: fc.constantFrom('one', 'two', 'three'),
    at: fc.nat(9),
    what: fc.constantFrom('add', 'add', 'use', 'rest', 'close', 'retire'),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const open: Connection[] = [];
      const used = new Set<string>();
      const countOf = (peer: string): number => open.filter((one) => one.peer === peer).length;
      limit = new ConnectionLimit(
        100,
        () => 0,
        (connection) => {
          if (connection.isInUse) return false;
          limit.remove(connection);
          ended.push(connection);
          return true;
        },
      );
      for (const { peer, at, what } of steps) {
        const connection = open[at];
        if (what === 'add') open.push(add(peer));
        else if (what === 'retire') {
          const counts = new Map(open.map((one) => [one.peer, countOf(one.peer)]));
          const mayEnd = open.filter((one) => !one.isInUse && !(counts.get(one.peer) === 1 && used.has(one.peer)));
          expect(limit.retireOne()).toBe(mayEnd.length > 0);
          const last = ended.at(-1);
          if (mayEnd.length === 0 || !last) continue;
          open.splice(open.indexOf(last), 1);
          const most = Math.max(...mayEnd.map((one) => counts.get(one.peer) ?? 0));
          expect((counts.get(last.peer) ?? 0) * 2).toBeGreaterThanOrEqual(most);
        } else if (connection && what === 'close') {
          limit.remove(connection);
          open.splice(at, 1);
        } else if (connection) {
          connection.isInUse = what === 'use';
          limit.mark(connection, what === 'rest');
          if (what === 'use') used.add(connection.peer);
        }
        for (const name of used) if (countOf(name) === 0) used.delete(name);
      }
    }),
  );
});

test.each([
  ['10.0.0.7', '10.0.0.7'],
  ['::ffff:10.0.0.7', '10.0.0.7'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
  ['2001:db8:1:2::6', '2001:db8:1:2'],
  ['2001:db8::6', '2001:db8:0:0'],
  ['::1', '0:0:0:0'],
  [undefined, ''],
])('the connections of the address %s are counted for %s', (address, peer) => {
  expect(peerName(address)).toBe(peer);
});

test('callers may take a part of the open files', () => {
  expect(new CallerMemory(1).maxConnections).toBeGreaterThan(100);
});
