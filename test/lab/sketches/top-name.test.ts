import '../../helpers/realm.ts';
import fc from 'fast-check';
import {
  createTopName,
  encodedName,
  isSameName,
  keptName,
  NameIndex,
  type TopName,
} from '../../../src/lab/sketches/top-name.ts';
import { describeKey } from '../../../src/operate/admin/top-keys.ts';

const text = fc.string({ unit: 'binary', maxLength: 4 });
const anyEntries = fc.array(fc.record({ key: text, value: text }), { minLength: 1, maxLength: 3 });

test('two descriptors have the same name if and only if they are equal', () => {
  fc.assert(
    fc.property(anyEntries, anyEntries, (one, other) => {
      const areEqual = JSON.stringify(one) === JSON.stringify(other);
      expect(isSameName(createTopName(one), createTopName(other))).toBe(areEqual);
      expect(isSameName(createTopName(one), keptName(createTopName(structuredClone(one))))).toBe(true);
      expect(encodedName(createTopName(one)) === encodedName(createTopName(other))).toBe(areEqual);
    }),
    { seed: 1 },
  );
});

test('descriptors of different rules have different names', () => {
  const name = createTopName([{ key: 'user', value: 'alice' }]);
  expect(isSameName({ ...name, rule: 'shop.user' }, { ...name, rule: 'shop.user' })).toBe(true);
  expect(isSameName({ ...name, rule: 'shop.user' }, { ...name, rule: 'shop.other' })).toBe(false);
});

test('a name can be read back, and the length of the missing part of a long one is reported', () => {
  fc.assert(
    fc.property(anyEntries, (entries) => {
      expect(describeKey(encodedName(createTopName(entries)))).toEqual({ entries });
    }),
    { seed: 2 },
  );
  const long = [
    { key: 'user', value: 'alice' },
    { key: 'path', value: 'x'.repeat(5_000) },
  ];
  const name = createTopName(long);
  expect(describeKey(encodedName(name))).toMatchObject({ cut: true, entries: [long[0], { key: 'path' }] });
  expect(encodedName(name).length).toBeLessThan(4_200);
  expect(isSameName(name, createTopName(structuredClone(long)))).toBe(true);
});

/** Few different hashes, so that names share chains. */
const collidingName = fc
  .record({ key: fc.integer({ min: 0, max: 30 }), hash: fc.integer({ min: -2, max: 1 }) })
  .map(({ key, hash }): TopName => ({ rule: '', entries: [{ key: `${key}`, value: '' }], hash, isText: false }));

test('an index finds each name under its number, even if many have the same hash', () => {
  const step = fc.record({ name: collidingName, at: fc.nat() });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
      const index = new NameIndex();
      const model: TopName[] = [];
      for (const { name, at } of steps) {
        const known = model.findIndex((one) => isSameName(one, name));
        expect(index.find(name)).toBe(known);
        if (known >= 0) continue;
        if (model.length < 20) {
          expect(index.add(name)).toBe(model.push(name) - 1);
          continue;
        }
        const number = at % model.length;
        expect(index.replace(number, name)).toBe(model[number]);
        model[number] = name;
      }
      expect(index.names()).toEqual(model);
      for (const [number, name] of model.entries()) expect(index.find(name)).toBe(number);
    }),
    { seed: 3 },
  );
});
