import { EventEmitter } from 'node:events';
import type { Cluster } from 'ioredis';
import { mendCluster } from '../../../src/parts/redis/cluster.ts';

type Options = { readonly host: string; reconnectOnError?(error: Error): unknown };
type Slots = (subcommand: 'SLOTS', done: (error: unknown, slots?: unknown) => void) => void;

/** A mended node `own` of a Cluster, which answers CLUSTER SLOTS with this reply. */
function mended(reply?: unknown) {
  const options: Options = { host: 'own' };
  const cluster: Slots = (_, done) => done(undefined, reply);
  const node = { options, asking: async () => {}, duplicate: () => ({ cluster }) };
  const client = Object.assign(new EventEmitter(), { status: 'connecting', nodes: () => [] });
  mendCluster(client as unknown as Cluster); // the used part of one
  client.emit('+node', node);
  client.emit('end'); // ends its timer
  return node;
}

/** An error of a node, as ioredis sees it. */
function followable(message: string): string {
  const error = new Error(message);
  mended().options.reconnectOnError?.(error);
  return error.message;
}

/** A reply to CLUSTER SLOTS, as ioredis sees it. @throws unknown  the error instead */
function checkedSlots(reply: unknown): unknown {
  let found: unknown;
  mended(reply)
    .duplicate()
    .cluster('SLOTS', (error, slots) => {
      if (error) throw error;
      found = slots;
    });
  return found;
}

test.each([
  ['MOVED 3999 10.0.0.7:6381', 'MOVED 3999 10.0.0.7:6381'],
  ['ASK 3999 redis-2.example.com:6381', 'ASK 3999 redis-2.example.com:6381'],
  ['ASK 16383 fd00::7:6381', 'ASK 16383 fd00::7:6381'],
  ['MOVED 3999 :6381', 'MOVED 3999 own:6381'],
  ['READONLY You cannot write', 'READONLY You cannot write'],
])('an error %j is reported as %j', (message, expected) => {
  expect(followable(message)).toBe(expected);
});

test.each([
  'ASK',
  'MOVED',
  'ASK 1',
  'ASK 1 nohost',
  'MOVED 1 host:0',
  'MOVED 1 host:65536',
  'ASK 16384 host:1',
  'MOVED __proto__ host:1',
  'ASK 1 a b:1',
])('a redirection %j is an ordinary error', (message) => {
  expect(followable(message)).toBe(`ERR malformed redirection of a Cluster: ${message}`);
});

test('nodes without a host have that of the node that was asked', () => {
  const slots = [[0, 16_383, ['', 1, 'a', []], [null, 2], ['there', 3]]];
  expect(checkedSlots(slots)).toEqual([[0, 16_383, ['own', 1, 'a', []], ['own', 2], ['there', 3]]]);
});

test.each<[unknown, string]>([
  [7, 'a number'],
  [null, 'nil'],
  [[7], 'a number'],
  [[[0, 30_000_000, ['h', 1]]], 'slots 0 to 30000000'],
  [[[-1, 5, ['h', 1]]], 'slots -1 to 5'],
  [[[5, 4, ['h', 1]]], 'slots 5 to 4'],
  [[['0', '5', ['h', 1]]], 'slots 0 to 5'],
  [Array.from({ length: 2 }, () => [0, 9_000, ['h', 1]]), 'more than 16384 slots'],
  [[[0, 5, 'h']], 'a string'],
  [[[0, 5, ['h', 65_536]]], 'port 65536'],
  [[[0, 5, [7, 1]]], 'a host that is a number'],
])('a reply to CLUSTER SLOTS that is %j is refused', (reply, why) => {
  expect(() => checkedSlots(reply)).toThrow(`the reply to CLUSTER SLOTS is malformed: ${why}`);
});
