import { apiRoutes } from '../../src/edge/http/api.ts';
import { startHttpServer } from '../../src/edge/http/server.ts';
import { requestFromJson } from '../../src/edge/wire/json.ts';
import { InvalidJson } from '../../src/edge/wire/json-reader.ts';
import type { WireRequest } from '../../src/edge/wire/wire.ts';
import { agreeable } from '../helpers/grpc-server.ts';
import { overloadOf } from '../helpers/overload.ts';
import fc from '../helpers/property.ts';
import { anyMutated } from './mutations.ts';

/** Any octets are a request or throw InvalidJson. Accepted octets are valid JSON with the same texts. */
function expectReadOrRefused(body: string | Uint8Array): void {
  const octets = Buffer.from(body as string); // an overload also accepts octets
  let request: WireRequest;
  try {
    request = requestFromJson(octets);
  } catch (error) {
    expect(error).toBeInstanceOf(InvalidJson);
    expect((error as InvalidJson).message.length).toBeLessThan(1_000); // checked above
    return;
  }
  expect(request).toMatchObject({ domain: expect.any(String), descriptors: expect.any(Array) });
  const parsed = JSON.parse(octets.toString());
  expect(request.domain).toBe(parsed.domain ?? '');
  expect(request.descriptors.map(({ entries }) => entries)).toEqual(
    (parsed.descriptors ?? []).map(({ entries }: { entries?: { key?: string; value?: string }[] }) =>
      (entries ?? []).map(({ key, value }) => ({ key: key ?? '', value: value ?? '' })),
    ),
  );
}

const texts = [
  '{"domain": "d", "descriptors": [{"entries": [{"key": "k", "value": "v"}]}]}',
  `{"domain": "d", "hitsAddend": 9, "descriptors": [{"entries": [{"key": "k", "value": "v"}, {"key": "\\u00e9"}], "hitsAddend": "7",
    "isNegativeHits": true, "limit": {"requestsPerUnit": 5, "unit": "MINUTE", "unitMultiplier": 3}}]}`,
];
const pieces = [
  'null',
  'true',
  '1e400',
  '-0',
  '-1',
  '18446744073709551616',
  '"__proto__"',
  '"constructor"',
  '{',
  '}',
  '[',
  ']',
  ',',
  ':',
  '"',
  '\\',
  '\\ud800',
  '\\u00',
  '"domain"',
  '"descriptors"',
  '"hits_addend"',
  '"hitsAddend"',
  'x'.repeat(16_385),
  '{},'.repeat(257),
];

test('almost valid requests are answered or refused', () => {
  fc.assert(fc.property(anyMutated(texts, pieces), expectReadOrRefused), { numRuns: 1_000 });
});

test('random text is answered or refused', () => {
  fc.assert(fc.property(fc.string({ unit: 'binary', maxLength: 200 }), expectReadOrRefused), { numRuns: 500 });
});

test('random JSON in place of any field is answered or refused', () => {
  fc.assert(
    fc.property(fc.json(), fc.json(), (one, other) => {
      expectReadOrRefused(one);
      expectReadOrRefused(`{"domain": "d", "descriptors": ${one}, "hits_addend": ${other}}`);
      expectReadOrRefused(`{"domain": ${one}, "descriptors": [{"entries": ${other}}]}`);
      expectReadOrRefused(`{"descriptors": [{"entries": [{"key": ${one}}], "limit": ${other}}]}`);
    }),
    { numRuns: 500 },
  );
});

test.each([
  ['lists', '['.repeat(1_000_000)],
  ['objects', '{"a":'.repeat(1_000_000)],
  ['descriptors', '{"descriptors":['.repeat(200_000)],
])('endless %s are refused', (_what, body) => {
  expect(() => requestFromJson(Buffer.from(body))).toThrow(InvalidJson);
});

const bodies = anyMutated(texts, pieces).map((text) => Buffer.from(text));

/** A body with some octets changed, so that it may not be UTF-8. */
const anySpoilt = fc
  .tuple(bodies, fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 4 }))
  .map(([body, changes]) => {
    for (const [at, octet] of changes) if (body.length > 0) body[at % body.length] = octet;
    return body;
  });

test('random octets are decoded or refused', () => {
  fc.assert(fc.property(fc.oneof(anySpoilt, fc.uint8Array({ maxLength: 100 })), expectReadOrRefused), {
    numRuns: 500,
  });
});

test.each(texts)('no prefix of a request is a request: %s', (text) => {
  for (let length = 0; length < text.length; length++)
    expect(() => requestFromJson(Buffer.from(text.slice(0, length)))).toThrow(InvalidJson);
});

test('a request is decoded to the original, for any strings', () => {
  const anyText = fc.string({ unit: 'grapheme', maxLength: 20 });
  const anyRequest = fc.record({
    domain: anyText,
    descriptors: fc.array(
      fc.record({ entries: fc.array(fc.record({ key: anyText, value: anyText }), { maxLength: 4 }) }),
      { maxLength: 4 },
    ),
    hits_addend: fc.nat(),
  });
  fc.assert(
    fc.property(anyRequest, fc.constantFrom(undefined, 1, '\t'), (request, indent) => {
      expect(requestFromJson(Buffer.from(JSON.stringify(request, undefined, indent)))).toMatchObject(request);
    }),
  );
});

test('/json answers 200 or 400 to any body, and keeps working', async () => {
  const errors: unknown[] = [];
  const routes = apiRoutes(agreeable, () => ({ ready: true, reasons: [] }), overloadOf());
  const server = await startHttpServer({ host: '127.0.0.1', port: 0 }, routes, (error) => errors.push(error));
  try {
    await fc.assert(
      fc.asyncProperty(fc.oneof(bodies, anySpoilt), async (body) => {
        const response = await fetch(`http://127.0.0.1:${server.port}/json`, { method: 'POST', body });
        expect([200, 400]).toContain(response.status);
        await response.arrayBuffer();
      }),
      { numRuns: 100 },
    );
  } finally {
    await server.close(0);
  }
  expect(errors).toEqual([]);
});
