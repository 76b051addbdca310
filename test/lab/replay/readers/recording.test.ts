import '../../../helpers/realm.ts';
import { RecordingReader } from '../../../../src/lab/replay/recordings.ts';
import fc from '../../../helpers/property.ts';

const reader = () => new RecordingReader({ onSettings() {}, onSample() {}, onDropped() {}, onRules() {} });

const request = (time: number): string =>
  JSON.stringify({ domain: 'demo', descriptors: [{ entries: [{ key: 'user', value: 'anna' }] }], time });

test.each([8.64e15 + 1, 253_402_300_800_000, -1, 0.5])('a request at %d is a broken line', (time) => {
  expect(reader().read([request(time)])).toEqual([expect.stringContaining('time must be')]);
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
  const [broken, next] = reader().read([JSON.stringify({ overrides: [override, wrong] }), request(1)]);
  expect(broken).toContain('overrides must be');
  expect(next).not.toHaveProperty('overrides');
});

test('overrides apply to the next request', () => {
  const effects = [override.effect, { kind: 'block' }, { kind: 'exempt' }];
  const overrides = effects.map((effect) => ({ ...override, effect }));
  expect(reader().read([JSON.stringify({ overrides }), request(1)])).toEqual([
    undefined,
    expect.objectContaining({ overrides }),
  ]);
});

const written = [
  request(1_700_000_000_000),
  '{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v,\\"time\\":1"}]}],"hitsAddend":2,"time":5,"timeoutMs":9,"answer":{"code":"OK","descriptors":[{"code":"OK","remaining":9,"rule":"d.k"}]}}',
  '{"domain":"d","descriptors":[{"entries":[],"limit":{"requestsPerUnit":5,"unit":"DAY"}}],"time":7,"answer":{"code":"OVER_LIMIT"},"hashed":true}',
];
const pieces = [
  ...'{ } [ ] , : 0 .5 e3 -1 " \\u0041 \\ é😀'.split(' '),
  ...'"time":1, ,"time":8 ,"time": "line":0, "label":"allow", ,"timeoutMs":5 "hitsAddend":3,'.split(' '),
  ...'"answer":{"code":"OK"}, "domain":"x", ,"descriptors":[] {"entries":[]}, "__proto__":1,'.split(' '),
  ...[' ', '\u0001', '{"key":"a","value":"a value of many characters"}', ',{"key":"b","value":"é"}'],
];

/** A line with some parts replaced. */
const changed = fc
  .tuple(
    fc.constantFrom(...written),
    fc.array(fc.record({ at: fc.nat(300), length: fc.nat(12), piece: fc.constantFrom('', ...pieces) }), {
      maxLength: 3,
    }),
  )
  .map(([line, changes]) =>
    changes.reduce((text, { at, length, piece }) => {
      const from = at % text.length;
      return `${text.slice(0, from)}${piece}${text.slice(piece === '' || at % 2 ? from + length : from)}` || '{';
    }, line),
  );

test('a line has the same meaning, whether it is parsed completely or by its repeated parts', () => {
  const overrides = JSON.stringify({ overrides: [] }); // the next line is parsed completely
  const parts = reader();
  fc.assert(
    fc.property(changed, (line) => {
      const [, whole] = reader().read([overrides, line]);
      const expected = typeof whole === 'object' ? { ...whole, overrides: undefined } : whole;
      for (const found of parts.read([line, line])) expect(found).toEqual(expected);
    }),
    { numRuns: 5_000 },
  );
});

test('repeated requests are read correctly, with any number of others in between', () => {
  const parts = reader();
  const createLine = (at: number): string => request(at + 1).replace('anna', `anna-${at % 60_000}`);
  for (let from = 0; from < 130_000; from += 1_000) {
    const lines = Array.from({ length: 1_000 }, (_, at) => createLine(from + at));
    for (const [at, found] of parts.read(lines).entries()) {
      const value = typeof found === 'object' ? found.request.descriptors[0]?.entries[0]?.value : found;
      if (value !== `anna-${(from + at) % 60_000}`) throw new Error(`line ${from + at} was read as of ${value}`);
    }
  }
});
