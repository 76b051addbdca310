import fc from 'fast-check';
import { describeKey } from '../../../../src/parts/lab/sketches/rule-top.ts';
import { createTopName } from '../../../../src/parts/lab/sketches/top-name.ts';

test('a name can be read back, and a long one says that its end is missing', () => {
  const text = fc.string({ unit: 'binary', maxLength: 4 });
  fc.assert(
    fc.property(fc.array(fc.record({ key: text, value: text }), { minLength: 1, maxLength: 3 }), (entries) => {
      expect(describeKey(createTopName(entries))).toEqual({ entries });
    }),
    { seed: 2 },
  );
  const user = { key: 'user', value: 'alice' };
  const name = createTopName([user, { key: 'path', value: 'x'.repeat(5_000) }]);
  expect(describeKey(name)).toMatchObject({ cut: true, entries: [user, { key: 'path' }] });
  expect(name.length).toBeLessThan(4_200);
});
