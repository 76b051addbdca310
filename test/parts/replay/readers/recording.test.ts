import '../../../helpers/realm.ts';
import { decodeRequest } from '../../../../src/edge/wire/codec.ts';
import { requestFromJson } from '../../../../src/edge/wire/json.ts';
import { readRecording } from '../../../../src/parts/replay/recordings.ts';
import fc from '../../../helpers/property.ts';

const reader = () => readRecording({ onSettings() {}, onSample() {}, onDropped() {}, onRules() {} });

const request = (time: number): string =>
  JSON.stringify({ domain: 'demo', descriptors: [{ entries: [{ key: 'user', value: 'anna' }] }], time });

test.each([8.64e15 + 1, 253_402_300_800_000, -1, 0.5])('a request at %d is a broken line', (time) => {
  expect(reader()([request(time)])).toEqual([expect.stringContaining('time must be')]);
});

const override = {
  domain: 'demo',
  entries: [{ key: 'user', value: 'anna' }],
  untilMs: 9e12,
  by: '',
  reason: '',
  effect: { kind: 'limit', requestsPerUnit: 5, unit: 'SECOND' },
};

test.each([
  null,
  7,
  {},
  { ...override, domain: 1 },
  { ...override, entries: undefined },
  { ...override, entries: [null] },
  { ...override, untilMs: 'soon' },
  { ...override, effect: undefined },
  { ...override, effect: { kind: 'limit', requestsPerUnit: 5, unit: 'toString' } },
  { ...override, effect: { kind: 'limit', unit: 'SECOND' } },
  { ...override, effect: { kind: 'other' } },
])('the override %j is a broken line, and changes nothing', (wrong) => {
  const [broken, next] = reader()([JSON.stringify({ overrides: [override, wrong] }), request(1)]);
  expect(broken).toContain('overrides must be');
  expect(next).not.toHaveProperty('overrides');
});

test('overrides apply to the next request', () => {
  const effects = [override.effect, { kind: 'block' }, { kind: 'exempt' }];
  const overrides = effects.map((effect) => ({ ...override, effect }));
  expect(reader()([JSON.stringify({ overrides }), request(1)])).toEqual([
    undefined,
    expect.objectContaining({ overrides }),
  ]);
});

/** A number, or a text that is not one. */
const anyNumber = fc.constantFrom<unknown>(0, 3, -1, 0.5, 2 ** 32, '7', null);
const anyField = <T>(value: fc.Arbitrary<T>) => fc.option(value, { freq: 6, nil: undefined });
const anyRequest = fc.record({
  domain: fc.constantFrom<unknown>('demo', '', 7, undefined),
  descriptors: anyField(
    fc.array(
      fc.record({
        entries: anyField(
          fc.array(fc.constantFrom<object>({ key: 'a', value: 'b' }, { key: 'a' }, { key: 1, value: '' })),
        ),
        hitsAddend: anyField(anyNumber),
        isNegativeHits: anyField(fc.constantFrom<unknown>(true, false, 1)),
        limit: anyField(fc.constant({ requestsPerUnit: 5, unit: 'DAY' })),
      }),
      { maxLength: 3 },
    ),
  ),
  hitsAddend: anyField(anyNumber),
  other: anyField(fc.constant(1)),
});

test('a request of plain texts and numbers means the same as to the decoder of JSON', () => {
  fc.assert(
    fc.property(anyRequest, (body) => {
      fc.pre('domain' in JSON.parse(JSON.stringify(body)));
      const decoded = (): unknown => decodeRequest(requestFromJson(Buffer.from(JSON.stringify(body))));
      const [found] = reader()([JSON.stringify({ ...body, time: 1 })]);
      if (typeof found === 'string') expect(decoded).toThrow(found);
      else expect(found?.request).toEqual(decoded());
    }),
    { numRuns: 1_000 },
  );
});
