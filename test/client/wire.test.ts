import { decodeBatch, decodeReply } from '../../client/src/wire/decode.ts';
import { encodeBatch, encodeRequest } from '../../client/src/wire/encode.ts';
import { replyFromJson, requestToJson } from '../../client/src/wire/json.ts';
import { type LimitRequest, type Reply, replyCodes, units } from '../../client/src/wire/messages.ts';
import type { Json } from '../../src/base/json.ts';
import { decideBatch, shouldRateLimit } from '../../src/edge/rls/proto.ts';
import { requestFromJson, responseToJson } from '../../src/engine/wire/json.ts';
import type { WireResponse } from '../../src/engine/wire/wire.ts';
import { toStruct } from '../../src/protobuf/struct.ts';
import fc from '../helpers/property.ts';

const text = fc.string({ unit: 'grapheme', maxLength: 20 });
const uint32 = fc.integer({ min: 0, max: 0xffff_ffff });

const requests: fc.Arbitrary<LimitRequest> = fc.record({
  domain: text,
  descriptors: fc.array(fc.array(fc.tuple(text, text), { maxLength: 3 }), { maxLength: 3 }),
  hits: fc.oneof(fc.integer({ min: -5, max: 5 }), uint32),
});

/** The parts of a request that the service reads. */
const wireOf = ({ domain, descriptors, hits }: LimitRequest) => ({
  domain,
  descriptors: descriptors.map((entries) => ({
    entries: entries.map(([key, value]) => ({ key, value })),
    limit: null,
    hits_addend: hits > 0 ? null : { value: Math.abs(hits) },
    is_negative_hits: hits < 0,
  })),
  hits_addend: Math.max(hits, 0),
});

const statuses = fc.record({
  code: fc.integer({ min: 0, max: 2 }),
  current_limit: fc.option(
    fc.record({
      name: text,
      requests_per_unit: uint32,
      unit: fc.integer({ min: 0, max: 7 }),
      unit_multiplier: fc.option(fc.record({ value: fc.integer({ min: 1, max: 100 }) }), { nil: undefined }),
    }),
    { nil: undefined },
  ),
  limit_remaining: uint32,
  duration_until_reset: fc.option(
    fc.record({ seconds: fc.integer({ min: 0, max: 1_000_000 }), nanos: fc.constant(0) }),
    { nil: undefined },
  ),
});

const responses = fc.record({
  overall_code: fc.integer({ min: 1, max: 2 }),
  statuses: fc.array(statuses, { maxLength: 3 }),
  response_headers_to_add: fc.array(fc.record({ key: text, value: text }), { maxLength: 2 }),
  detail: fc.option(fc.dictionary(text, fc.jsonValue({ maxDepth: 2 }), { noNullPrototype: true })),
});

type Response = typeof responses extends fc.Arbitrary<infer R> ? R : never;

const responseOf = ({ detail, ...response }: Response): WireResponse =>
  ({
    ...response,
    dynamic_metadata: detail && toStruct({ weir: detail as Json }), // JSON, as generated
  }) as WireResponse; // undefined fields are equivalent to absent ones

const expectedOf = ({ overall_code, statuses: written, response_headers_to_add, detail }: Response): Reply => ({
  code: replyCodes[overall_code] ?? 'UNKNOWN',
  statuses: written.map(({ code, current_limit: limit, limit_remaining, duration_until_reset }) => {
    const unitMs = units[limit?.unit ?? 0]?.[1];
    return {
      code: replyCodes[code] ?? 'UNKNOWN',
      limit: limit && {
        name: limit.name,
        requestsPerUnit: limit.requests_per_unit,
        windowMs: unitMs && unitMs * (limit.unit_multiplier?.value ?? 1),
      },
      remaining: limit_remaining,
      resetMs: duration_until_reset && duration_until_reset.seconds * 1_000,
    };
  }),
  headers: response_headers_to_add,
  detail: detail ?? undefined,
});

/** Removes prototypes and negative zeros. */
const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

test('the service decodes a request correctly from protobuf and JSON', () => {
  fc.assert(
    fc.property(requests, (request) => {
      const encoded = encodeRequest(request);
      expect(plain(shouldRateLimit.requestDeserialize(encoded))).toEqual(plain(wireOf(request)));
      expect(plain(requestFromJson(Buffer.from(requestToJson(request))))).toEqual(plain(wireOf(request)));
    }),
  );
});

test('the service reads the requests of a batch in order', () => {
  fc.assert(
    fc.property(fc.array(requests, { maxLength: 5 }), (batch) => {
      const { requests: read } = decideBatch.requestDeserialize(encodeBatch(batch));
      expect(plain(read)).toEqual(plain(batch.map(wireOf)));
    }),
  );
});

test('an answer of the service is decoded correctly from protobuf and JSON', () => {
  fc.assert(
    fc.property(responses, (response) => {
      const wire = responseOf(response);
      expect(plain(decodeReply(shouldRateLimit.responseSerialize(wire)))).toEqual(plain(expectedOf(response)));
      expect(plain(replyFromJson(JSON.stringify(responseToJson(wire))))).toEqual(plain(expectedOf(response)));
    }),
  );
});

test('the answers of a batch, replies and failures, are read in order', () => {
  const failure = fc.record({ code: fc.integer({ min: 1, max: 16 }), message: text });
  fc.assert(
    fc.property(fc.array(fc.oneof(responses, failure), { maxLength: 5 }), (items) => {
      const answers = items.map((item) => ('code' in item ? { status: item } : { response: responseOf(item) }));
      const read = decodeBatch(decideBatch.responseSerialize({ answers }));
      const expected = items.map((item) =>
        'code' in item ? { status: item.code, message: item.message } : { reply: expectedOf(item) },
      );
      expect(plain(read)).toEqual(plain(expected));
    }),
  );
});

test('malformed answers of any kind are refused', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (octets) => {
      for (const decode of [decodeReply, decodeBatch])
        try {
          decode(Buffer.from(octets));
        } catch (error) {
          expect(error).toBeInstanceOf(RangeError);
        }
    }),
    { numRuns: 2_000 },
  );
});
