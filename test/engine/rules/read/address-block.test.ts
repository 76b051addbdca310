import {
  addressBlockProblem,
  addressBlockText,
  parseAddressBlock,
  toNetwork,
} from '../../../../src/engine/rules/read/address-block.ts';

const shortest = (text: string): string | undefined => {
  const block = parseAddressBlock(text);
  return block && addressBlockText(toNetwork(block));
};

test.each([
  ['10.0.0.0/8', '10.0.0.0/8'],
  ['10.1.2.3/8', '10.0.0.0/8'],
  ['10.1.2.3', '10.1.2.3'],
  ['10.1.2.3/32', '10.1.2.3'],
  ['0.0.0.0/0', '0.0.0.0/0'],
  ['10.255.255.255/9', '10.128.0.0/9'],
  ['2001:DB8:0:0::/32', '2001:db8::/32'],
  ['2001:db8::1/128', '2001:db8::1'],
  ['::/0', '::/0'],
  ['::1', '::1'],
])('%s is the block %s', (text, block) => {
  expect(shortest(text)).toBe(block);
});

test.each([
  ['::ffff:10.1.2.3', '10.1.2.3'],
  ['::FFFF:0a01:0203', '10.1.2.3'],
  ['::ffff:10.0.0.0/104', '10.0.0.0/8'],
  ['::ffff:0:0/96', '0.0.0.0/0'],
])('the IPv4-mapped block %s is the IPv4 block %s', (text, block) => {
  expect(shortest(text)).toBe(block);
});

test.each([
  ...[
    '',
    '10',
    '10.1',
    '10.0.0.256',
    '010.0.0.1',
    '0x7f.0.0.1',
    '10.0.0.0/33',
    '10.0.0.0/',
    '10.0.0.0/08',
    '10.0.0.0/-1',
  ],
  ...['10.0.0.0/8/8', ' 10.0.0.1', '1::2::3', '2001:db8::/129', '::ffff:10.0.0.0/90', '::10.0.0.1', 'fe80::1%eth0'],
  ...['10.0.0.1:80', '[::1]', 'alice', '1'.repeat(1_000)],
])('%j is no block', (text) => {
  expect(parseAddressBlock(text)).toBeUndefined();
  expect(addressBlockProblem(text)).toContain('expected a block of IP addresses such as 10.0.0.0/8');
});

test('a block whose address has bits beyond its prefix is reported with both corrections', () => {
  expect(addressBlockProblem('10.1.2.3/8')).toBe(
    'its address has bits beyond /8: write 10.0.0.0/8 for the block, or 10.1.2.3 for the address',
  );
  expect(addressBlockProblem('10.0.0.0/8')).toBeUndefined();
});
