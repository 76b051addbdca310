import '../../../helpers/realm.ts';
import { BlockList, isIPv6 } from 'node:net';
import { findCounter } from '../../../../src/engine/decide/counter-key.ts';
import { countedAddress } from '../../../../src/engine/rules/match/addresses.ts';
import { countedEntries, match } from '../../../../src/engine/rules/match/match.ts';
import { valueMatcher } from '../../../../src/engine/rules/match/matchers.ts';
import { addressBlockText, toNetwork } from '../../../../src/engine/rules/read/address-block.ts';
import { trace } from '../../../../src/parts/explain/trace.ts';
import { matchDigest, needsValue } from '../../../../src/parts/lab/record/hashing.ts';
import { hashBlind } from '../../../../src/parts/replay/hashed-values.ts';
import { deciderOf } from '../../../helpers/decider.ts';
import fc from '../../../helpers/property.ts';
import { rulesFrom } from '../../../helpers/rules.ts';

const limit = 'rate_limit: { unit: minute, requests_per_unit: 5 }';
const rules = rulesFrom(`
domain: edge
descriptors:
  - { key: remote_address, addresses: [10.0.0.0/8, 192.0.2.7/32, "2001:db8::/32"], ${limit} }
  - { key: remote_address, addresses: 10.1.0.0/16, share_threshold: true, ${limit} }
  - { key: remote_address, addresses: "2001:db8:1::1", ${limit} }
  - { key: remote_address, value: 10.1.2.3, ${limit} }
  - { key: remote_address, value: "10.*", ${limit} }
  - { key: remote_address, ${limit} }
`);
const descriptor = (value: string) => ({ entries: [{ key: 'remote_address', value }], requestLimit: undefined });
const found = (value: string, tree = rules) => match(tree, 'edge', descriptor(value));
const pathOf = (value: string): string | undefined => {
  const one = found(value);
  return 'rule' in one ? one.rule.path : undefined;
};

test.each([
  ['10.2.3.4', '10.0.0.0/8'],
  ['10.1.9.9', '10.1.0.0/16'],
  ['192.0.2.7', '10.0.0.0/8'],
  ['::ffff:10.1.9.9', '10.1.0.0/16'],
  ['::ffff:0a02:0304', '10.0.0.0/8'],
  ['2001:DB8:0:0::9', '10.0.0.0/8'],
  ['2001:db8:1:0::1', '2001:db8:1::1'],
  ['10.1.2.3', '10.1.2.3'],
  ['10.1.2.0/24', '10.1.0.0/16'],
  ['10.0.0.0/9', '10.0.0.0/8'],
  ['10.0.0.0/7', '10.*'],
  ['10.1', '10.*'],
])('%s is matched by %s: an exact value, the longest block, a pattern', (value, name) => {
  expect(pathOf(value)).toBe(`edge.remote_address_${name}`);
});

test.each(['8.8.8.8', '2001:db9::1', 'alice', '', '::10.1.2.3'])('%j is in no block', (value) => {
  expect(pathOf(value)).toBe('edge.remote_address');
});

test('each address has a counter of its own, however it is written', () => {
  const counted = (value: string) => {
    const one = found(value);
    return one.kind === 'limited' ? one.entries[0]?.value : undefined;
  };
  expect([counted('10.2.3.4'), counted('::ffff:10.2.3.4'), counted('2001:DB8:0::9')]).toEqual([
    '10.2.3.4',
    '10.2.3.4',
    '2001:db8::9',
  ]);
});

test('with share_threshold, all addresses share a counter that is named by the first block', () => {
  const one = found('10.1.9.9');
  expect(one.kind === 'limited' && one.entries).toEqual([{ key: 'remote_address', value: '10.1.0.0/16' }]);
});

test('the rule of a counter is found by the name of the counter', () => {
  const decider = deciderOf(rules);
  for (const value of ['10.2.3.4', '10.1.9.9', '2001:db8:1::1', '10.1.2.3']) {
    const one = found(value);
    if (one.kind !== 'limited') throw new Error(`${value} is not limited`);
    const [limited] = one.limits;
    const { key } = decider.counters(limited?.limit as never, 'edge', one.entries); // the rule has a limit
    expect(findCounter(rules, key, decider)?.rule).toBe(one.rule);
  }
});

test('a search shows each list of blocks and why it was passed over', () => {
  const [level] = trace(rules, 'edge', descriptor('10.1.9.9')).path;
  expect(level?.tried.slice(0, 4)).toEqual([
    {
      ...{ key: 'remote_address', value: '10.0.0.0/8 192.0.2.7 2001:db8::/32', kind: 'addresses', matched: false },
      reason: 'longer_block_won',
    },
    { key: 'remote_address', value: '10.1.0.0/16', kind: 'addresses', matched: true },
    {
      ...{ key: 'remote_address', value: '2001:db8:1::1', kind: 'addresses', matched: false },
      reason: 'address_outside',
    },
    { key: 'remote_address', value: '10.*', kind: 'wildcard', matched: false, reason: 'more_specific_won' },
  ]);
  expect(trace(rules, 'edge', descriptor('10.1.2.3')).path[0]?.tried[1]).toMatchObject({
    kind: 'addresses',
    reason: 'more_specific_won',
  });
});

test('an address outside all blocks is explained with the nearest rule', () => {
  const allowed = rulesFrom(`domain: edge\ndescriptors:\n  - { key: ip, addresses: 10.0.0.0/8, ${limit} }`);
  const stopped = trace(allowed, 'edge', {
    entries: [{ key: 'ip', value: '8.8.8.8' }],
    requestLimit: undefined,
  }).stopped;
  expect(stopped).toMatchObject({
    reason: 'value_differs',
    nearest: [{ rule: 'edge.ip_10.0.0.0/8', descriptor: [{ key: 'ip', value: '10.0.0.0' }] }],
  });
});

test('a recording keeps values that were chosen by a block, and its digest of the rules depends on their blocks', () => {
  const { root } = rules.domains.get('edge') ?? {};
  const needs = (value: string): boolean => {
    const entry = { key: 'remote_address', value };
    const one = found(value);
    const node = [...(root?.byKey.get('remote_address')?.addresses?.all ?? [])].find(
      ({ node: { rule } }) => 'rule' in one && rule === one.rule,
    )?.node;
    return needsValue(root, entry, node);
  };
  expect([needs('10.2.3.4'), needs('8.8.8.8')]).toEqual([true, false]);
  const digestOf = (block: string): string =>
    matchDigest(rulesFrom(`domain: edge\ndescriptors:\n  - { key: ip, addresses: ${block}, ${limit} }`));
  expect(digestOf('10.0.0.0/8')).not.toBe(digestOf('10.0.0.0/9'));
});

test('rules for requests with hashed values keep their blocks', () => {
  const one = found('10.1.9.9', hashBlind(rules));
  expect('rule' in one && one.rule.path).toBe('edge.remote_address_10.1.0.0/16');
});

test.each([
  [['10.0.0.0/8'], ['10.1.0.0/16'], { covers: true, overlaps: true, precedes: false }],
  [['10.1.0.0/16'], ['10.0.0.0/8'], { covers: false, overlaps: true, precedes: true }],
  [['10.0.0.0/9'], ['10.128.0.0/9'], { covers: false, overlaps: false, precedes: false }],
  [['10.0.0.0/8', '::/0'], ['10.1.0.0/16', '2001:db8::/32'], { covers: true, overlaps: true, precedes: false }],
  [['10.0.0.0/8'], ['::/0'], { covers: false, overlaps: false, precedes: false }],
])('the blocks %j, compared with %j: %j', (one, other, expected) => {
  const [matcher, compared] = [one, other].map((addresses) => valueMatcher({ addresses }));
  if (!matcher || !compared) throw new Error('expected two matchers');
  expect({
    covers: matcher.covers(compared),
    overlaps: matcher.overlaps(compared),
    precedes: matcher.precedes?.(compared),
  }).toEqual(expected);
});

const anyBlock = fc
  .tuple(
    fc.oneof(
      fc.array(fc.constantFrom(0, 1, 128, 255), { minLength: 4, maxLength: 4 }),
      fc.array(fc.constantFrom(0, 1, 128, 255), { minLength: 16, maxLength: 16 }),
    ),
    fc.double({ min: 0, max: 1, noNaN: true }),
  )
  .map(([bytes, part]) => toNetwork({ bytes, bits: Math.round(part * 8 * bytes.length) }));

test('an address is matched by the longest of the blocks that contain it', () => {
  fc.assert(
    fc.property(fc.uniqueArray(anyBlock, { selector: addressBlockText, maxLength: 12 }), anyBlock, (blocks, block) => {
      const address = addressBlockText({ ...block, bits: 8 * block.bytes.length });
      const family = isIPv6(address) ? 'ipv6' : 'ipv4';
      const containing = blocks.filter((one) => {
        if (one.bytes.length !== block.bytes.length) return false;
        const list = new BlockList();
        list.addSubnet(addressBlockText({ ...one, bits: 8 * one.bytes.length }), one.bits, family);
        return list.check(address, family);
      });
      const [longest] = containing.sort((one, other) => other.bits - one.bits);
      const tree = rulesFrom(
        JSON.stringify({
          domain: 'edge',
          descriptors: [
            { key: 'x', rate_limit: { unlimited: true } },
            ...blocks.map((one) => ({
              key: 'remote_address',
              addresses: addressBlockText(one),
              rate_limit: { unlimited: true },
            })),
          ],
        }),
      );
      const one = found(address, tree);
      expect('rule' in one ? one.rule.path : undefined).toBe(
        longest && `edge.remote_address_${addressBlockText(longest)}`,
      );
      expect(countedAddress(address)).toBe(address);
    }),
    { numRuns: 150 },
  );
});

test('lists name the counter of an address, whatever its spelling, and that of a network', () => {
  const nets = rulesFrom(`domain: edge\ndescriptors:\n  - { key: ip, addresses: '2001:db8::/32', ${limit} }`);
  for (const value of ['2001:db8::1', '2001:DB8:0::1', '2001:db8:1:2::/64']) {
    const entries = [{ key: 'ip', value }];
    const one = match(nets, 'edge', { entries, requestLimit: undefined });
    if (one.kind !== 'limited') throw new Error('the rule has a limit');
    expect(countedEntries(one.rule, entries)).toEqual(one.entries);
  }
});
