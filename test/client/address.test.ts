import { createAddressOf } from '../../client/src/middleware/address.ts';

test.each([
  // trusted, the peer, X-Forwarded-For, the client
  [undefined, '192.0.2.1', '203.0.113.9', '192.0.2.1'],
  [0, '192.0.2.1', '203.0.113.9', '192.0.2.1'],
  [1, '10.0.0.1', '203.0.113.9', '203.0.113.9'],
  [1, '10.0.0.1', 'spoofed, 198.51.100.1, 203.0.113.9', '203.0.113.9'],
  [2, '10.0.0.1', '1.1.1.1, 203.0.113.9, 10.0.0.2', '203.0.113.9'],
  [1, '10.0.0.1', undefined, '10.0.0.1'],
  [['10.0.0.0/8'], '10.0.0.1', '1.1.1.1, 203.0.113.9, 10.0.0.2', '203.0.113.9'],
  [['10.0.0.0/8'], '192.0.2.1', '203.0.113.9', '192.0.2.1'],
  [['loopback', 'uniquelocal'], '::1', '203.0.113.9, 192.168.0.1', '203.0.113.9'],
  [[], '127.0.0.1', '203.0.113.9', '127.0.0.1'],
  [1, '10.0.0.1', '203.0.113.9:4711', '203.0.113.9'],
  [1, '10.0.0.1', '[2001:db8::1]:4711', '2001:db8::/64'],
  [['10.0.0.0/8'], '10.0.0.1', '203.0.113.9:4711, 10.0.0.2:4712', '203.0.113.9'],
  [['10.0.0.0/8'], 'unknown', '203.0.113.9', 'unknown'],
  [['10.0.0.0/8'], undefined, '203.0.113.9', 'unknown'],
  [1, '10.0.0.1', 'unknown', '10.0.0.1'],
  [undefined, '::ffff:192.0.2.1', undefined, '192.0.2.1'],
  [undefined, '2001:db8:1:2:3:4:5:6', undefined, '2001:db8:1:2::/64'],
  [undefined, '2001:0:0:2::3', undefined, '2001:0:0:2::/64'],
  [undefined, 'fe80::1%eth0', undefined, 'fe80::/64'],
  [undefined, '192.0.2.1:5000', undefined, '192.0.2.1'],
  [undefined, undefined, '203.0.113.9', 'unknown'],
])('with trust in %j, a request from %s with %j comes from %s', (trust, peer, forwardedFor, client) => {
  expect(createAddressOf(trust)({ peer, forwardedFor })).toBe(client);
});

test('the framework decides if no proxies are configured', () => {
  const origin = { peer: '10.0.0.1', forwardedFor: '203.0.113.9', resolved: '203.0.113.9' };
  expect(createAddressOf(undefined)(origin)).toBe('203.0.113.9');
  expect(createAddressOf(0)(origin)).toBe('10.0.0.1');
});

test('IPv6 networks have the configured size', () => {
  const origin = { peer: '2001:db8:1:2ff:3:4:5:6', forwardedFor: undefined };
  expect(createAddressOf(undefined, 56)(origin)).toBe('2001:db8:1:200::/56');
  expect(createAddressOf(undefined, 128)(origin)).toBe('2001:db8:1:2ff:3:4:5:6');
  expect(() => createAddressOf(undefined, 0)).toThrow('ipv6Prefix must be a number from 1 to 128, got 0');
});
