import slotOf from 'cluster-key-slot';
import { Command } from 'ioredis';
import { StoreCommand } from '../../../src/parts/redis/commands.ts';
import fc from '../../helpers/property.ts';

const SOCKET = {};

const text = fc.oneof(
  fc.string(),
  fc.string({ unit: 'binary' }),
  fc.constant('{demo}fixed_window.2|60000|4:user|3:bob'),
);
const octets = fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes));

test('the octets of a script call are those that ioredis writes', () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(text, octets), { maxLength: 40 }), (args) => {
      const plain = new Command('EVALSHA', ['5c2f', ...args], { replyEncoding: null }).toWritable(SOCKET);
      const own = new StoreCommand('EVALSHA', ['5c2f', ...args]).toWritable();
      expect(own).toEqual(Buffer.from(plain));
    }),
    { numRuns: 300 },
  );
});

test.each(['é', '\u{1f600}', 'a\ud800', `${'x'.repeat(99)}ÿ`])(
  'an argument with characters of several octets is written completely: %j',
  (last) => {
    const own = new StoreCommand('EVALSHA', ['5c2f', '1', 'key', last]).toWritable();
    const size = Buffer.byteLength(last);
    expect(own.toString()).toBe(
      `*5\r\n$7\r\nEVALSHA\r\n$4\r\n5c2f\r\n$1\r\n1\r\n$3\r\nkey\r\n$${size}\r\n${Buffer.from(last)}\r\n`,
    );
  },
);

test('the slot of a call is the given one, otherwise that of its first key', () => {
  const args = ['5c2f', '2', '{shop}a', '{shop}b', Buffer.alloc(8)];
  expect(new StoreCommand('EVALSHA', args).getSlot()).toBe(slotOf('shop'));
  expect(new StoreCommand('EVALSHA', args, 0).getSlot()).toBe(0);
});
