import '../../helpers/realm.ts';
import { RecordingReader } from '../../../src/replay/readers/recording.ts';

const reader = () => new RecordingReader({ onSettings() {}, onSample() {}, onDropped() {}, onRules() {} });

const request = (time: number): string =>
  JSON.stringify({ domain: 'demo', descriptors: [{ entries: [{ key: 'user', value: 'anna' }] }], time });

test.each([8.64e15 + 1, 253_402_300_800_000, -1, 0.5])('a request at %d is a broken line', (time) => {
  expect(reader().read([request(time)])).toEqual([expect.stringContaining('time must be')]);
});

const override = {
  ...{ domain: 'demo', entries: [{ key: 'user', value: 'anna' }], untilMs: 9e12, by: '', reason: '' },
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

test('overrides go with the next request', () => {
  const effects = [override.effect, { kind: 'block' }, { kind: 'exempt' }];
  const overrides = effects.map((effect) => ({ ...override, effect }));
  expect(reader().read([JSON.stringify({ overrides }), request(1)])).toEqual([
    undefined,
    expect.objectContaining({ overrides }),
  ]);
});
