import { type AddressBlock, parseAddressBlock } from '../../../src/engine/rules/read/address-block.ts';
import type { Offender } from '../../../src/parts/guard/answers.ts';
import { Guard } from '../../../src/parts/guard/guard.ts';
import { parsePeers } from '../../../src/parts/guard/peers.ts';
import { refusal, SPECIAL_BLOCKS } from '../../../src/parts/guard/safety.ts';

const blocks = (...texts: readonly string[]): readonly AddressBlock[] =>
  texts.map((text) => parseAddressBlock(text) as AddressBlock); // all are valid
const spared = {
  allowed: blocks('198.51.100.0/24', '2001:db8:a::1'),
  special: blocks(...SPECIAL_BLOCKS),
  own: blocks('203.0.113.1', '2001:db8::1'),
};

test.each([
  ['203.0.113.7', undefined],
  ['2001:db8:7::7', undefined],
  ['2001:db8:7::/64', undefined],
  ['::ffff:203.0.113.7', undefined],
  ['203.0.113.0/24', 'only single addresses and IPv6 /64 networks are dropped'],
  ['2001:db8::/48', 'only single addresses and IPv6 /64 networks are dropped'],
  ['2001:db8::/96', 'only single addresses and IPv6 /64 networks are dropped'],
  ['198.51.100.255', 'it is allowed (--allow)'],
  ['2001:db8:a::1', 'it is allowed (--allow)'],
  ['2001:db8:a::/64', 'it is allowed (--allow)'],
  ['203.0.113.1', 'it is an address of this machine'],
  ['2001:db8::/64', 'it is an address of this machine'],
  ...[
    ...['0.0.0.0', '10.255.255.255', '100.64.0.1', '127.0.0.1', '169.254.169.254', '172.31.0.1', '192.168.1.1'],
    ...['224.0.0.1', '255.255.255.255', '::', '::1', '::ffff:10.0.0.1', '64:ff9b::203.0.113.7', 'fd00::1'],
    ...['fd00::/64', 'fe80::1', 'ff02::1'],
  ].map((address) => [address, 'it is private or special'] as const),
] as const)('%s may be dropped unless there is a reason: %s', (address, reason) => {
  expect(refusal(blocks(address)[0] as AddressBlock, spared)).toBe(reason);
});

test('peers are the addresses of complete connections to the ports, in the format of Linux', () => {
  const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:01BB 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0
   1: 017100CB:01BB 077100CB:A001 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0
   2: 017100CB:01BB 087100CB:A001 03 00000000:00000000 00:00000000 00000000     0        0 3 1 0
   3: 017100CB:0050 097100CB:A001 01 00000000:00000000 00:00000000 00000000     0        0 4 1 0
  sl  local_address                         remote_address                        st tx_queue
  10: B80D0120000000000000000001000000:01BB B80D0120000000000000000007000000:A001 06 00000000:00000000 00:00000000
  11: 0000000000000000FFFF0000017100CB:01BB 0000000000000000FFFF00000A7100CB:A001 08 00000000:00000000 00:00000000
`;
  expect([...parsePeers(table, [443])]).toEqual(['203.0.113.7', '2001:db8::7', '2001:db8::/64', '203.0.113.10']);
});

const offender = (address: string, refused: number): Offender => ({
  ...{ address, refused, rule: 'edge.remote_address', domain: 'edge', descriptor: `remote_address=${address}` },
  ...{ limit: '1 per minute', admits: 1 },
});
const FIRST = '203.0.113.7';
const SECOND = '203.0.113.8';

/** At each second the offenders, and what becomes of them. */
test.each([
  [
    'an address is dropped once, and passes when it is listed no more',
    [
      [[offender(FIRST, 20)], ['add 203.0.113.7']],
      [[offender(FIRST, 20)], []],
      [[], ['remove 203.0.113.7: it is no offender any more']],
      [[offender(FIRST, 20)], ['add 203.0.113.7']],
    ],
  ],
  [
    'after the maximum time, an address is dropped again only if it was refused more often meanwhile',
    [
      [[offender(FIRST, 20)], ['add 203.0.113.7']],
      [[offender(FIRST, 19)], []],
      [[offender(FIRST, 18)], []],
      [[offender(FIRST, 18)], ['remove 203.0.113.7: its time is over']],
      [[offender(FIRST, 18)], []],
      [[offender(FIRST, 19)], ['add 203.0.113.7']],
    ],
  ],
  [
    'the number of addresses is limited, and each reason is told once',
    [
      [
        [offender(SECOND, 20), offender(FIRST, 19)],
        ['add 203.0.113.8', 'skip 203.0.113.7: 1 addresses are dropped already (--max-entries)'],
      ],
      [[offender(SECOND, 20), offender(FIRST, 19)], []],
      [[offender(FIRST, 19)], ['remove 203.0.113.8: it is no offender any more', 'add 203.0.113.7']],
    ],
  ],
  [
    'an address that is not connected here is not dropped, until it is',
    [
      [[offender('203.0.113.99', 20)], ['skip 203.0.113.99: it is not connected to this machine']],
      [[offender('203.0.113.99', 20)], []],
    ],
  ],
] as const)('%s', async (_title, steps) => {
  const guard = new Guard({ spared, maxMs: 3_000, maxEntries: 1 });
  for (const [at, [offenders, expected]] of steps.entries()) {
    const events = await guard.next(offenders, at * 1_000, async () => new Set([FIRST, SECOND]));
    expect(
      events.map(({ event, address, reason }) => `${event} ${address}${reason === undefined ? '' : `: ${reason}`}`),
    ).toEqual(expected);
  }
});
