import type { RedisAddress } from '../../src/engine/open/options.ts';
import {
  describeAddress,
  parseAddress,
  parseCredentials,
  withoutCredentials,
} from '../../src/settings/redis-address.ts';

const none = { socket: undefined, auth: undefined };
const local: RedisAddress = { kind: 'tcp', host: 'redis', port: 6379, tls: false, database: 0 };

describe('one server', () => {
  test.each<[string, RedisAddress]>([
    ['redis:6380', { ...local, port: 6380 }],
    ['redis', local],
    ['10.0.0.7:1', { ...local, host: '10.0.0.7', port: 1 }],
    ['[::1]:6380', { ...local, host: '::1', port: 6380 }],
    ['redis://redis:6380/3', { ...local, port: 6380, database: 3 }],
    ['redis://redis/', local],
    ['rediss://redis', { ...local, tls: true }],
    ['redis://:s3cret@redis', { ...local, password: 's3cret' }],
    ['redis://weir:s%40cret@redis', { ...local, username: 'weir', password: 's@cret' }],
    ['/run/redis.sock', { kind: 'unix', path: '/run/redis.sock', database: 0 }],
  ])('%s', (written, address) => {
    expect(parseAddress(written, 'SINGLE', none)).toEqual(address);
  });

  test('is recognized as a socket or not', () => {
    const socket = { kind: 'unix', path: 'redis.sock', database: 0 };
    expect(parseAddress('redis.sock', 'SINGLE', { ...none, socket: 'unix' })).toEqual(socket);
    expect(parseAddress('/redis.sock', 'SINGLE', { ...none, socket: 'tcp' })).toBeUndefined();
  });

  test.each([
    '',
    'redis:port',
    'redis://redis/db',
    'redis://redis?db=2',
    'redis://redis#2',
    'redis://%zz@redis',
    'http://redis',
    'a,b:1',
  ])('is not %j', (written) => {
    expect(parseAddress(written, 'SINGLE', { ...none, socket: 'tcp' })).toBeUndefined();
  });
});

const sentinels = [
  { host: 'one', port: 26_379 },
  { host: '::1', port: 2 },
];

test.each<['SENTINEL' | 'CLUSTER', string, RedisAddress | undefined]>([
  ['SENTINEL', 'mymaster,one:26379,[::1]:2', { kind: 'sentinel', master: 'mymaster', sentinels }],
  ['SENTINEL', 'mymaster', undefined],
  ['SENTINEL', 'mymaster,', undefined],
  ['SENTINEL', ',one:1', undefined],
  ['SENTINEL', 'mymaster,one:x', undefined],
  ['CLUSTER', 'one:26379,[::1]:2', { kind: 'cluster', nodes: sentinels }],
  ['CLUSTER', 'one:26379', { kind: 'cluster', nodes: [{ host: 'one', port: 26_379 }] }],
  ['CLUSTER', 'one:26379,', undefined],
  [
    'SENTINEL',
    'mymaster,rediss://:s3cret@one:26379,rediss://:s3cret@[::1]:2/0',
    { kind: 'sentinel', master: 'mymaster', sentinels, tls: true, sentinelCredentials: { password: 's3cret' } },
  ],
  [
    'CLUSTER',
    'rediss://weir:s%40cret@one:26379,rediss://weir:s%40cret@[::1]:2',
    { kind: 'cluster', nodes: sentinels, tls: true, username: 'weir', password: 's@cret' },
  ],
  ['CLUSTER', '', undefined],
])('%s %s', (type, written, address) => {
  expect(parseAddress(written, type, none)).toEqual(address);
});

test.each<['SENTINEL' | 'CLUSTER', string, string]>([
  ['CLUSTER', 'redis://one/2', 'one:6379: database 2 cannot be selected: a Cluster has only database 0'],
  ['SENTINEL', 'm,one:1,redis://two:2/3', 'two:2: database 3 cannot be selected: a sentinel has no databases'],
  ['CLUSTER', 'rediss://one,two', 'two:6379: rediss:// must be written for all of these servers or for none'],
  [
    'SENTINEL',
    'm,redis://u:p@one,redis://u:q@two',
    'two:6379: user and password must be the same in the URLs of all of these servers',
  ],
])('an unsupported part of the %s address %s is named', (type, written, refusal) => {
  expect(parseAddress(written, type, none)).toEqual({ refusal });
});

test.each(['SINGLE', 'SENTINEL', 'CLUSTER'] as const)(
  '%s: separate credentials take precedence over those of the address',
  (type) => {
    const written = { SINGLE: 'redis://u:p@redis', SENTINEL: 'm,redis://u:p@redis:1', CLUSTER: 'redis:1' }[type];
    expect(parseAddress(written, type, { ...none, auth: 'weir:a:b' })).toMatchObject({
      username: 'weir',
      password: 'a:b',
    });
  },
);

test('credentials are a password, or a user and a password', () => {
  expect([undefined, '', 's3cret', 'weir:s3cret', 'weir:a:b', ':x'].map(parseCredentials)).toEqual([
    {},
    {},
    { password: 's3cret' },
    { username: 'weir', password: 's3cret' },
    { username: 'weir', password: 'a:b' },
    { password: 'x' },
  ]);
});

const SECRETS = { username: 'weir', password: 's3cret' };

test.each<[RedisAddress, string]>([
  [{ kind: 'unix', path: '/run/redis.sock', database: 0, ...SECRETS }, 'unix:/run/redis.sock'],
  [{ ...local, host: '10.0.0.7', ...SECRETS }, 'redis://10.0.0.7:6379/0'],
  [{ ...local, host: '::1', tls: true, database: 3, ...SECRETS }, 'rediss://[::1]:6379/3'],
  [{ kind: 'sentinel', master: 'm', sentinels, ...SECRETS }, 'master m of the sentinels one:26379, [::1]:2'],
  [{ kind: 'cluster', nodes: sentinels, ...SECRETS }, 'the Cluster of one:26379, [::1]:2'],
])('the address %j is shown as %s', (address, text) => {
  expect(describeAddress(address)).toBe(text);
});

test.each([
  ['redis://u:p@redis:1', 'redis://***@redis:1'],
  ['u:p@x@redis', '***@redis'],
  ['m,u:p@one:1,two', '***@one:1,two'],
  ['redis:1', 'redis:1'],
])('%s is shown as %s', (written, told) => {
  expect(withoutCredentials(written)).toBe(told);
});
