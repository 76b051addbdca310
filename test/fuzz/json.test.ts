import fc from 'fast-check';
import { InvalidJson, requestFromJson } from '../../src/rls/json.ts';
import { anyMutated } from './mutations.ts';

/** Whatever the text, it is a request, or it is told what is wrong. */
function expectTold(body: string): void {
  try {
    expect(requestFromJson(body)).toMatchObject({ domain: expect.any(String), descriptors: expect.any(Array) });
  } catch (error) {
    expect(error).toBeInstanceOf(InvalidJson);
  }
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
];

test('texts that are nearly right', () => {
  fc.assert(fc.property(anyMutated(texts, pieces), expectTold), { numRuns: 10_000 });
});

test('any text', () => {
  fc.assert(fc.property(fc.string({ unit: 'binary', maxLength: 200 }), expectTold), { numRuns: 2_000 });
});

test('any JSON in the place of any field', () => {
  fc.assert(
    fc.property(fc.json(), fc.json(), (one, other) => {
      expectTold(one);
      expectTold(`{"domain": "d", "descriptors": ${one}, "hits_addend": ${other}}`);
      expectTold(`{"domain": ${one}, "descriptors": [{"entries": ${other}}]}`);
      expectTold(`{"descriptors": [{"entries": [{"key": ${one}}], "limit": ${other}}]}`);
    }),
    { numRuns: 2_000 },
  );
});

test.each([
  ['lists', '['.repeat(1_000_000)],
  ['objects', '{"a":'.repeat(1_000_000)],
  ['descriptors', '{"descriptors":['.repeat(200_000)],
])('%s without an end are refused', (_what, body) => {
  expect(() => requestFromJson(body)).toThrow(InvalidJson);
});
