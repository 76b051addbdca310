import '../../helpers/realm.ts';
import { deflateSync, gzipSync } from 'node:zlib';
import { status } from '@grpc/grpc-js';
import { takeBuffer } from '../../../src/h2/bounds/spare-buffers.ts';
import { isEncoding } from '../../../src/h2/grpc/compression.ts';
import { GrpcError } from '../../../src/h2/grpc/grpc-status.ts';
import { MessageReader, unpacked } from '../../../src/h2/grpc/message-reader.ts';
import { framed } from '../../helpers/h2-client.ts';
import fc from '../../helpers/property.ts';

const MAX_BYTES = 5_000;

/** Passes these parts to a reader, each in the middle of a buffer. @returns the messages, and the remaining bytes */
function read(parts: readonly Uint8Array[], encoding = 'identity') {
  const messages: Buffer[] = [];
  const reader = new MessageReader(MAX_BYTES, (...message) => {
    const [bytes, from, to] = unpacked(message, encoding, MAX_BYTES);
    messages.push(Buffer.from(bytes.subarray(from, to)));
  });
  for (const part of parts) {
    const around = Buffer.concat([Buffer.alloc(3, 0xff), part, Buffer.alloc(3, 0xff)]);
    reader.push(around, 3, 3 + part.length);
    around.fill(0xff); // the part is valid only during the call
  }
  return { messages, pending: reader.pending };
}

const compressors = { gzip: gzipSync, deflate: deflateSync } as const;
const anyEncoding = fc.constantFrom('gzip' as const, 'deflate' as const);
const anyMessage = fc.oneof(
  fc.uint8Array({ maxLength: 20 }),
  fc.nat(MAX_BYTES).map((length) => Buffer.alloc(length, 'message')),
);

test('messages are reassembled, wherever they are split', () => {
  const anyMessages = fc.array(fc.tuple(anyMessage, fc.boolean()), { maxLength: 5 });
  fc.assert(
    fc.property(anyMessages, anyEncoding, fc.array(fc.nat(), { maxLength: 10 }), (messages, encoding, cuts) => {
      const bytes = Buffer.concat(
        messages.map(([message, isCompressed]) =>
          isCompressed ? framed(compressors[encoding](message), 1) : framed(message),
        ),
      );
      const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1))].sort((one, other) => one - other);
      const parts = places.map((from, at) => bytes.subarray(from, places[at + 1]));
      expect(read(parts, encoding)).toEqual({
        messages: messages.map(([message]) => Buffer.from(message)),
        pending: 0,
      });
    }),
  );
});

test('the octets of an incomplete message are pending', () => {
  const bytes = framed(Buffer.alloc(2_000));
  for (const cut of [1, 4, 5, 6, 1_000, 2_004])
    expect(read([bytes.subarray(0, cut)])).toEqual({ messages: [], pending: cut });
  expect(read([bytes, bytes.subarray(0, 3)]).pending).toBe(3);
});

const refusal = (code: status, message: string) => expect.objectContaining({ code, message });

test('a message beyond the limit is refused as soon as its length is known', () => {
  expect(read([framed(Buffer.alloc(MAX_BYTES))]).messages).toHaveLength(1);
  const tooLarge = refusal(status.RESOURCE_EXHAUSTED, 'a message may have at most 5000 bytes, got 5001');
  expect(() => read([framed(Buffer.alloc(MAX_BYTES + 1)).subarray(0, 5)])).toThrow(tooLarge);
  expect(() => read([Buffer.of(0, 0, 0), Buffer.of(0x13, 0x89)])).toThrow(tooLarge);
});

test.each(Object.entries(compressors))('%s: the limit applies to the decompressed message', (encoding, compress) => {
  expect(read([framed(compress(Buffer.alloc(MAX_BYTES)), 1)], encoding).messages).toEqual([Buffer.alloc(MAX_BYTES)]);
  expect(() => read([framed(compress(Buffer.alloc(MAX_BYTES + 1)), 1)], encoding)).toThrow(
    refusal(status.RESOURCE_EXHAUSTED, 'a decompressed message may have at most 5000 bytes'),
  );
});

test.each([
  ['of another encoding', framed(deflateSync('message'), 1)],
  ['that is cut off', framed(gzipSync('message').subarray(0, 15), 1)],
  ['that is empty', framed(Buffer.alloc(0), 1)],
])('a compressed message %s is refused', (_what, bytes) =>
  expect(() => read([bytes], 'gzip')).toThrow(refusal(status.INTERNAL, 'a message is not valid gzip')),
);

test('a compressed message needs an encoding', () =>
  expect(() => read([framed(gzipSync('message'), 1)])).toThrow(
    refusal(status.INTERNAL, 'a message is compressed, but grpc-encoding is missing'),
  ));

test('a compression flag other than 0 or 1 is refused', () => {
  expect(() => read([framed(Buffer.alloc(1), 2)])).toThrow(GrpcError);
  expect(() => read([framed(Buffer.alloc(1), 2)])).toThrow('the compression flag must be 0 or 1, got 2');
});

test('encodings are recognized by name', () =>
  expect(['identity', 'gzip', 'deflate', 'br', 'GZIP', '', 'toString'].filter(isEncoding)).toEqual([
    'identity',
    'gzip',
    'deflate',
  ]));

test('the buffer of a message that arrived in parts is used again', () => {
  let joined: Buffer = Buffer.alloc(0);
  const reader = new MessageReader(MAX_BYTES, (bytes) => {
    joined = bytes;
  });
  const message = framed(Buffer.alloc(MAX_BYTES));
  reader.push(message, 0, 100);
  reader.push(message, 100, message.length);
  expect(takeBuffer(joined.length)).toBe(joined);
});
