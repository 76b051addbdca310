import { decodeBatch, decodeReply } from '../../client/src/wire/decode.ts';
import { decodeHold } from '../../client/src/wire/decode-holds.ts';
import { encodeBatch, encodeHold, encodeRequest } from '../../client/src/wire/encode.ts';
import { holdFromJson, holdToJson, replyFromJson, requestToJson } from '../../client/src/wire/json.ts';
import { commitOutcomes, type LimitRequest, type Reply, replyCodes, units } from '../../client/src/wire/messages.ts';
import type { Json } from '../../src/base/json.ts';
import { decideBatch, shouldRateLimit } from '../../src/edge/rls/proto.ts';
import { requestFromJson, responseToJson } from '../../src/edge/wire/json.ts';
import type { WireResponse } from '../../src/edge/wire/wire.ts';
import { holdsService } from '../../src/parts/holds/methods.ts';
import { holdAnswerToJson, holdFromJson as serviceReadsHold } from '../../src/parts/holds/pages.ts';
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

/** A span from 1 ms to an hour. */
const spansMs = fc.integer({ min: 1, max: 3_600_000 });
const durationOf = (ms: number) => ({ seconds: Math.floor(ms / 1_000), nanos: (ms % 1_000) * 1e6 });
const none = durationOf(0);

test('the service decodes a request for slots correctly from protobuf and JSON', () => {
  fc.assert(
    fc.property(requests, fc.option(spansMs, { nil: undefined }), (request, maxDelayMs) => {
      const hold = { request, ...(maxDelayMs !== undefined && { maxDelayMs }) };
      const expected = {
        request: wireOf(request),
        max_delay: maxDelayMs === undefined ? null : durationOf(maxDelayMs),
      };
      const decoded = holdsService.Acquire?.requestDeserialize(encodeHold(hold)) as typeof expected; // of this shape
      const withNumbers = decoded.max_delay && { ...decoded.max_delay, seconds: Number(decoded.max_delay.seconds) };
      expect(plain({ ...decoded, max_delay: withNumbers })).toEqual(plain(expected));
      expect(plain(serviceReadsHold(Buffer.from(holdToJson(hold))))).toEqual(plain(expected));
    }),
  );
});

test('the answers about slots and reservations are decoded correctly from protobuf and JSON', () => {
  const read = <M extends 'Acquire' | 'Reserve' | 'Commit'>(method: M, answer: object) => [
    decodeHold[method](holdsService[method]?.responseSerialize(answer) ?? Buffer.alloc(0)),
    holdFromJson[method](JSON.stringify(holdAnswerToJson(answer))),
  ];
  fc.assert(
    fc.property(fc.boolean(), spansMs, uint32, uint32, (isGranted, ms, hits, overrun) => {
      const wire = { ttl: isGranted ? durationOf(ms) : none, retry_after: isGranted ? null : durationOf(ms) };
      const times = { ttlMs: isGranted ? ms : 0, retryAfterMs: isGranted ? undefined : ms };
      for (const answer of read('Acquire', { held: isGranted, ...wire }))
        expect(answer).toEqual({ held: isGranted, ...times });
      for (const answer of read('Reserve', { reserved: isGranted, hits, ...wire }))
        expect(answer).toEqual({ reserved: isGranted, hits, ...times });
      const outcome = (hits % 4) + 1;
      for (const answer of read('Commit', { outcome, charged: hits, overrun }))
        expect(answer).toEqual({ outcome: commitOutcomes[outcome - 1], charged: hits, overrun });
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
    { numRuns: 500 },
  );
});
