import '../../helpers/realm.ts';
import { status } from '@grpc/grpc-js';
import { readSettings } from '../../../src/settings/settings.ts';
import { type SentAction, strategyOf } from '../../helpers/quota-client.ts';
import { useQuotaService } from '../../helpers/quota-service.ts';
import { until } from '../../helpers/until.ts';

const RULES = `
domain: edge
descriptors:
  - { key: user, rate_limit: { unit: minute, requests_per_unit: 6000, algorithm: token_bucket, burst: 64 } }
  - { key: free, rate_limit: { unlimited: true } }
  - { key: none, rate_limit: { unit: second, requests_per_unit: 0 } }
  - { key: held, rate_limit: { algorithm: in_flight, requests_per_unit: 2, ttl: 9s } }
  - { key: path, value: "/one/*", share_threshold: true, rate_limit: { unit: minute, requests_per_unit: 6000 } }
  - { key: path, value: "/two/*", share_threshold: true, rate_limit: { unit: minute, requests_per_unit: 6000 } }
`;

const stage = useQuotaService(RULES);
const { launch, open } = stage;

const bucketOf = (actions: readonly SentAction[]) => strategyOf(actions)?.token_bucket;

const metric = async (name: string, of = stage.weir): Promise<number> => {
  const page = await (await fetch(`http://127.0.0.1:${of.debugPort}/metrics`)).text();
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(page)?.[1]);
};

test('a lone proxy gets nearly the whole rate and burst, as a bucket with fill intervals of whole seconds', async () => {
  const stream = open('a');
  stream.report({ user: 'ann' }, 1);
  const [action] = await stream.next();
  expect(action?.bucket_id.bucket).toEqual({ user: 'ann' });
  expect(action?.quota_assignment_action?.assignment_time_to_live?.seconds).toBe(60);
  expect(bucketOf([action as SentAction])).toEqual({
    max_tokens: 64,
    tokens_per_fill: { value: 6_000 - 46 },
    fill_interval: { seconds: 60, nanos: 60 },
  });
});

test('the shares of two proxies add up to at most the rate', async () => {
  const [one, two] = [open('x'), open('y')];
  one.report({ user: 'bob' }, 1);
  const first = bucketOf(await one.next());
  two.report({ user: 'bob' }, 1);
  const second = bucketOf(await two.next());
  const sum = (first?.tokens_per_fill?.value ?? 0) + (second?.tokens_per_fill?.value ?? 0);
  expect(second?.tokens_per_fill?.value).toBeGreaterThan(0);
  expect(sum).toBeLessThanOrEqual(6_000);
});

test.each([
  ['without a name', undefined, '/one/'],
  ['with a name', 'shared', '/two/'],
])('buckets of a proxy %s whose values share a counter share its rate', async (_, name, folder) => {
  const stream = open(name);
  let sum = 0;
  for (const file of ['a', 'b', 'c', '*']) {
    stream.report({ path: `${folder}${file}` }, 1);
    const given = strategyOf(await stream.next());
    sum += given?.token_bucket?.tokens_per_fill?.value ?? 0;
  }
  expect(sum).toBeGreaterThan(0);
  expect(sum).toBeLessThanOrEqual(6_000);
});

test('with SHADOW_MODE proxies allow everything', async () => {
  const shadow = await launch({ SHADOW_MODE: 'true', RLQS_UNKNOWN: 'deny' });
  try {
    const stream = open('s', shadow);
    for (const bucket of [{ user: 'ann' }, { none: 'x' }, { unknown: 'x' }]) {
      stream.report(bucket, 1);
      expect(strategyOf(await stream.next())?.blanket_rule).toBe('ALLOW_ALL');
    }
  } finally {
    await shadow.stop();
  }
});

test('before rules are loaded, streams fail, so that proxies keep their quotas', async () => {
  const env = { CONFIG_TYPE: 'GRPC_XDS_SOTW', CONFIG_GRPC_XDS_SERVER_URL: '127.0.0.1:1' };
  const empty = await launch({ ...env, FORCE_START_WITHOUT_INITIAL_CONFIG: 'true' });
  try {
    const stream = open('early', empty);
    stream.report({ user: 'ann' }, 1, 5);
    expect(await stream.ended).toMatchObject({ code: status.UNAVAILABLE });
  } finally {
    await empty.stop();
  }
});

test('a report that changes nothing is not answered', async () => {
  const stream = open('quiet');
  stream.report({ user: 'cem' }, 1);
  await stream.next();
  for (let at = 0; at < 3; at++) stream.report({ user: 'cem' }, 1, 5);
  stream.report({ free: 'x' }, 1);
  expect((await stream.next())[0]?.bucket_id.bucket).toEqual({ free: 'x' });
});

test('a rule without a limit allows everything, but one of zero and a proxy without a share allow nothing', async () => {
  const stream = open('b');
  stream.report({ free: 'x' }, 1);
  expect(strategyOf(await stream.next())?.blanket_rule).toBe('ALLOW_ALL');
  stream.report({ none: 'x' }, 1);
  expect(strategyOf(await stream.next())?.blanket_rule).toBe('DENY_ALL');
});

test('buckets without an applicable rule are counted, and allowed unless RLQS_UNKNOWN says otherwise', async () => {
  const before = await metric('weir_rlqs_unknown_total');
  const stream = open('c');
  stream.report({ nothing: 'x' }, 1);
  expect(strategyOf(await stream.next())?.blanket_rule).toBe('ALLOW_ALL');
  stream.report({ held: 'x' }, 1);
  expect(strategyOf(await stream.next())?.blanket_rule).toBe('ALLOW_ALL');
  expect((await metric('weir_rlqs_unknown_total')) - before).toBe(2);
  const strict = await launch({ RLQS_UNKNOWN: 'deny', RLQS_DOMAINS: 'other' });
  try {
    const other = open('c', strict);
    other.report({ user: 'ann' }, 1);
    expect(strategyOf(await other.next())?.blanket_rule).toBe('DENY_ALL');
  } finally {
    await strict.stop();
  }
});

test('a bucket without requests in three reports is abandoned', async () => {
  const stream = open('d');
  stream.report({ user: 'dee' }, 1);
  await stream.next();
  for (let at = 0; at < 3; at++) stream.report({ user: 'dee' }, 0, 5);
  const [action] = await stream.next();
  expect(action).toMatchObject({ bucket_id: { bucket: { user: 'dee' } }, abandon_action: {} });
});

test('a bucket with requests between reports without any is kept', async () => {
  const stream = open('d');
  const usage = (user: string, requests: number) => ({
    bucket_id: { bucket: { user } },
    time_elapsed: { seconds: 5 },
    num_requests_allowed: requests,
    num_requests_denied: 0,
  });
  const usages = [1, 0, 0, 1, 0, 0].map((requests) => usage('kim', requests)); // more reports at once would fail the stream
  stream.send({ domain: 'edge', bucket_quota_usages: [...usages, usage('last', 1)] });
  const actions: SentAction[] = [];
  while (!actions.some(({ bucket_id }) => bucket_id.bucket.user === 'last')) actions.push(...(await stream.next()));
  expect(actions.filter((action) => action.abandon_action)).toEqual([]);
});

test('streams, buckets and assignments are counted until their stream ends', async () => {
  const stream = open('e');
  stream.report({ user: 'eve' }, 1);
  await stream.next();
  expect(await metric('weir_rlqs_streams')).toBeGreaterThanOrEqual(1);
  expect(await metric('weir_rlqs_buckets')).toBeGreaterThanOrEqual(1);
  stage.closeStreams();
  await until('no stream is open', async () => (await metric('weir_rlqs_streams')) === 0);
  expect(await metric('weir_rlqs_buckets')).toBe(0);
});

test.each(['', 'x'.repeat(1_025)])(
  'a stream whose first report has no or too long a domain is ended',
  async (domain) => {
    const stream = open('f', stage.weir, domain);
    stream.report({ user: 'ann' }, 1);
    expect(await stream.ended).toMatchObject({ code: status.INVALID_ARGUMENT });
  },
);

test('a message larger than those of other side services, with thousands of buckets, is accepted', async () => {
  const stream = open('g');
  const buckets = Array.from({ length: 5_000 }, (_, at) => ({
    bucket_id: { bucket: { user: `user-${at}` } },
    time_elapsed: { seconds: 0 },
    num_requests_allowed: 1,
    num_requests_denied: 0,
  }));
  stream.send({ domain: 'edge', bucket_quota_usages: buckets });
  let assigned = 0;
  while (assigned < buckets.length) assigned += (await stream.next()).length;
  expect(assigned).toBe(buckets.length);
});

test('the service exists only if RLQS is true, with h2, and without memcached', async () => {
  const off = await launch({ RLQS: 'false' });
  try {
    expect(await open('a', off).ended).toMatchObject({ code: status.UNIMPLEMENTED });
    expect(await metric('weir_rlqs_streams', off)).toBeNaN();
  } finally {
    await off.stop();
  }
  const enabled = { RLQS: 'true' };
  await expect(readSettings({ ...enabled, GRPC_TRANSPORT: 'grpc-js' })).rejects.toThrow('GRPC_TRANSPORT must be h2');
  const memcached = { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: 'localhost:1' };
  await expect(readSettings({ ...enabled, ...memcached })).rejects.toThrow('BACKEND_TYPE must be redis or memory');
});

test('several services share a pool in Redis, and a proxy keeps its share when the service is killed', async () => {
  const env = { BACKEND_TYPE: 'redis', REDIS_URL: stage.redis.url };
  const [one, two] = await Promise.all([launch(env), launch(env)]);
  try {
    const stream = open('alpha', one);
    stream.report({ user: 'ann' }, 1);
    const before = bucketOf(await stream.next());
    const other = open('beta', two);
    other.report({ user: 'ann' }, 1);
    const second = bucketOf(await other.next());
    expect((before?.tokens_per_fill?.value ?? 0) + (second?.tokens_per_fill?.value ?? 0)).toBeLessThanOrEqual(6_000);
    await one.stop('SIGKILL');
    const again = open('alpha', two);
    again.report({ user: 'ann' }, 600, 5);
    const after = bucketOf(await again.next());
    expect(after?.tokens_per_fill?.value).toBeGreaterThanOrEqual(2_900);
  } finally {
    await Promise.all([one.stop(), two.stop()]);
  }
});
