import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { batchCost, readBatchRequest, type WireBatchRequest, writeBatchResponse } from '../../../src/edge/rls/batch.ts';
import { requestCost } from '../../../src/edge/rls/cost.ts';
import { decideBatch } from '../../../src/edge/rls/proto.ts';
import type { WireRequest, WireResponse } from '../../../src/edge/wire/wire.ts';
import { status } from '../../../src/h2/grpc/grpc-status.ts';
import fc from '../../helpers/property.ts';
import { lengthField, varintField } from '../../helpers/protobuf.ts';

/** Reads a batch in the middle of a buffer. */
function read(bytes: Uint8Array): WireBatchRequest {
  const around = Buffer.concat([Buffer.alloc(7, 0x0a), bytes, Buffer.alloc(7, 0x0a)]);
  return readBatchRequest(around, 7, 7 + bytes.length);
}

const plainly = <T>(one: T): T => JSON.parse(JSON.stringify(one));
const encoded = (requests: readonly WireRequest[]): Buffer => decideBatch.requestSerialize({ requests });

const requestOf = (count: number, changes: Partial<WireRequest> = {}): WireRequest => ({
  domain: 'demo',
  descriptors: Array.from({ length: count }, () => ({
    entries: [{ key: 'user', value: 'alice' }],
    limit: null,
    hits_addend: null,
    is_negative_hits: false,
  })),
  hits_addend: 1,
  ...changes,
});

test('a batch is decoded as protobufjs decodes it, unknown fields included', () => {
  const text = fc.string({ unit: 'grapheme', maxLength: 100 });
  const request = fc
    .tuple(fc.nat(4), text, fc.nat(2 ** 32 - 1))
    .map(([count, domain, hits_addend]) => requestOf(count, { domain, hits_addend }));
  const unknown = fc.uint8Array({ maxLength: 20 }).map((payload) => lengthField(9, payload));
  const part = fc.oneof(
    request.map((one) => encoded([one])),
    unknown,
  );
  fc.assert(
    fc.property(fc.array(part, { maxLength: 20 }), (parts) => {
      const bytes = Buffer.concat(parts);
      expect(read(bytes)).toEqual(plainly(decideBatch.requestDeserialize(bytes)));
    }),
  );
});

test('a request that cannot be decoded has a problem, and the others are decoded', () => {
  const bytes = Buffer.concat([encoded([requestOf(1)]), lengthField(1, Buffer.of(0xff)), encoded([requestOf(2)])]);
  const { requests, problem } = read(bytes);
  expect(problem).toBeUndefined();
  expect(requests).toEqual([
    requestOf(1),
    expect.objectContaining({ problem: expect.stringMatching(/^the request cannot be decoded: /) }),
    requestOf(2),
  ]);
});

test('bytes that are no batch throw a RangeError', () => {
  expect(() => read(Buffer.of(0xff))).toThrow(RangeError);
  expect(() => read(encoded([requestOf(1)]).subarray(0, -1))).toThrow(RangeError);
});

test.each<[string, Buffer, status, string]>([
  [
    '257 requests',
    encoded(Array(257).fill(requestOf(1))),
    status.INVALID_ARGUMENT,
    'a batch may have at most 256 requests',
  ],
  [
    '513 descriptors',
    encoded([requestOf(256), requestOf(256), requestOf(1)]),
    status.INVALID_ARGUMENT,
    'the requests of a batch may have at most 512 descriptors together',
  ],
  [
    'more than 262,144 bytes',
    Buffer.concat([encoded([requestOf(1)]), lengthField(9, Buffer.alloc(262_144))]),
    status.RESOURCE_EXHAUSTED,
    'a batch may have at most 262144 bytes, got ',
  ],
])('a batch of %s is refused', (_, bytes, code, details) => {
  expect(read(bytes)).toEqual({ requests: [], problem: { code, details: expect.stringContaining(details) } });
});

test('a batch at its limits is decoded', () => {
  const twice = Array.from({ length: 256 }, () => requestOf(2));
  expect(read(encoded(twice)).requests).toEqual(twice);
  const unknown = varintField(9, 1n);
  expect(read(Buffer.alloc(262_144, unknown)).problem).toBeUndefined();
});

test('a batch costs the sum of its requests', () => {
  const requests = [requestOf(1), requestOf(3), requestOf(2)];
  const octets = encoded(requests).length;
  const single = requests.map((request) => requestCost(request, octets / 3));
  const bytes = single.reduce((sum, one) => sum + one.bytes, 0);
  expect(batchCost({ requests }, octets)).toEqual({
    bytes,
    units: 1 + single.reduce((sum, one) => sum + one.units, 0),
  });
  expect(batchCost({ requests: [] }, 10)).toEqual({ bytes: 0, units: 1 });
});

test('protobufjs decodes encoded messages', () => {
  const response: WireResponse = {
    overall_code: 2,
    statuses: [{ code: 2, limit_remaining: 0, duration_until_reset: { seconds: 7, nanos: 0 } }],
    response_headers_to_add: [{ key: 'é', value: 'x'.repeat(200) }],
    dynamic_metadata: { fields: { weir: { stringValue: 'é' } } },
  };
  const failed = { code: status.INVALID_ARGUMENT, message: 'rate limit domain must not be empty' };
  const answers = [{ response }, { status: failed }, { response: { ...response, statuses: [] } }];
  const { bytes, length } = writeBatchResponse({ answers }, 5);
  expect(decideBatch.responseDeserialize(bytes.subarray(5, length))).toMatchObject({
    answers: [
      { response: { overall_code: 2, statuses: [{ code: 2 }], dynamic_metadata: response.dynamic_metadata } },
      { status: { ...failed, details: [] } },
      { response: { response_headers_to_add: [{ key: 'é', value: 'x'.repeat(200) }] } },
    ],
  });
  expect(writeBatchResponse({ answers: [] }, 5).length).toBe(5);
});

test.each(['docs/clients.md', 'proto/weir/v1/batch.proto'])('%s states the limits of a batch', (file) => {
  const page = readFileSync(join(__dirname, '../../..', file), 'utf8');
  for (const text of ['256 requests', '512 descriptors', '262,144 bytes']) expect(page).toContain(text);
});
