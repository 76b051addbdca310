import '../../helpers/realm.ts';
import fc from 'fast-check';
import {
  descriptorText,
  InvalidDescriptor,
  parseAnyDescriptor,
  parseDescriptor,
} from '../../../src/edge/listing/descriptor-text.ts';
import { anyText } from '../../helpers/texts.ts';

test.each([
  ['user=alice', [['user', 'alice']]],
  [
    'user=alice,path=/login',
    [
      ['user', 'alice'],
      ['path', '/login'],
    ],
  ],
  ['token=a=b==', [['token', 'a=b==']]],
  ['user=', [['user', '']]],
  [
    String.raw`agent=Mozilla/5.0 (KHTML\, like Gecko),path=/`,
    [
      ['agent', 'Mozilla/5.0 (KHTML, like Gecko)'],
      ['path', '/'],
    ],
  ],
  [String.raw`a\=b=c\\d`, [['a=b', 'c\\d']]],
  [String.raw`a\,b=\x1b[2J\u202E`, [['a,b', '\u001b[2J\u202e']]],
])('%s is parsed into its entries', (written, found) => {
  expect(parseDescriptor(written).map(({ key, value }) => [key, value])).toEqual(found);
  expect(parseAnyDescriptor(written)).toEqual(parseDescriptor(written));
});

test.each(['user', '', '=alice', 'user=alice,', 'user=alice,path', String.raw`user\=alice`])(
  '%j is no descriptor, but can be explained',
  (written) => {
    expect(() => parseDescriptor(written)).toThrow(InvalidDescriptor);
    expect(parseAnyDescriptor(written).length).toBeGreaterThan(0);
  },
);

test.each([String.raw`a=\d`, 'a=\\', String.raw`a=\x1`, String.raw`a=\u12`])(
  'the backslash of %s is refused as ambiguous',
  (written) => {
    for (const read of [parseDescriptor, parseAnyDescriptor])
      expect(() => read(written)).toThrow(String.raw`a backslash in a descriptor must be written \\`);
  },
);

test('every descriptor can be parsed from its text, which is one line without control characters', () => {
  const anyEntry = fc.record({ key: anyText.filter((key) => key !== ''), value: anyText });
  fc.assert(
    fc.property(fc.array(anyEntry, { minLength: 1, maxLength: 4 }), (entries) => {
      const text = descriptorText(entries);
      expect(text).not.toMatch(/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}]/u);
      expect(parseDescriptor(text)).toEqual(entries);
    }),
  );
});
