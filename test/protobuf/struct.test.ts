import { fromStruct, toStruct } from '../../src/protobuf/struct.ts';

test('a JSON object is unchanged after conversion to google.protobuf.Struct and back', () => {
  const object = { a: null, b: true, c: -1.5, d: 'text', e: [1, [false, {}], 'x'], f: { g: { h: [] } }, __proto: 'p' };
  expect(fromStruct(toStruct(object))).toEqual(object);
});

test('a struct has one kind of value for each kind of JSON', () => {
  expect(toStruct({ n: null, b: false, d: 0, s: '', l: [null], o: {} })).toEqual({
    fields: {
      n: { nullValue: 0 },
      b: { boolValue: false },
      d: { numberValue: 0 },
      s: { stringValue: '' },
      l: { listValue: { values: [{ nullValue: 0 }] } },
      o: { structValue: { fields: {} } },
    },
  });
});
