import '../../helpers/realm.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { type FakeQuotaService, type SentAction, startFakeQuotaService } from '../../helpers/quota-client.ts';
import { type QuotaEnvoy, type QuotaEnvoyOptions, startQuotaEnvoy } from '../../helpers/quota-envoy.ts';
import { until } from '../../helpers/until.ts';

// Behaviour of one Envoy version's rate limit quota filter on which src/parts/quotas relies.
const RULES =
  'domain: edge\ndescriptors: [{ key: generic_key, value: all, rate_limit: { unit: second, requests_per_unit: 9 } }]';

let open: { close(): unknown }[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((one) => one.close()));
  open = [];
});

interface Pair {
  readonly service: FakeQuotaService;
  readonly envoy: QuotaEnvoy;
}

/** Envoy with a service controlled by the test; the bucket has been reported. */
async function startPair(options: QuotaEnvoyOptions = {}): Promise<Pair> {
  const service = await startFakeQuotaService({ generic_key: 'all' });
  open.push(service);
  const envoy = await startQuotaEnvoy(RULES, service.port, { name: 'one', ...options });
  open.push({ close: () => envoy.stop() });
  const sent: Promise<unknown>[] = [];
  await until('the bucket is reported', () => {
    sent.push(envoy.passes().catch(() => {}));
    return service.reports.length > 0;
  });
  await Promise.all(sent); // none of them takes a token later
  return { service, envoy };
}

interface Bucket {
  readonly max: number;
  readonly fill?: number;
  readonly seconds?: number;
  readonly nanos?: number;
  readonly ttl?: number;
}

/** The pair of tests that need no other configuration. */
let usual: Pair;
let usualParts: typeof open = [];
beforeAll(async () => {
  usual = await startPair();
  usualParts = open.splice(0);
});
afterAll(() => Promise.all(usualParts.map((one) => one.close())));

/** The usual pair, whose bucket is abandoned and has been reported again, so that it has no assignment. */
async function freshBucket(): Promise<Pair> {
  await apply(usual, { abandon_action: {} });
  const before = usual.service.reports.length;
  const sent: Promise<unknown>[] = [];
  await until('the bucket is reported again', () => {
    sent.push(usual.envoy.passes());
    return usual.service.reports.length > before;
  });
  await Promise.all(sent);
  return usual;
}

/** A token bucket that fills too slowly for the test to notice. */
const tokens = ({ max, fill = 1, seconds = 86_400, nanos = 0, ttl = 300 }: Bucket): Omit<SentAction, 'bucket_id'> => ({
  quota_assignment_action: {
    assignment_time_to_live: { seconds: ttl },
    rate_limit_strategy: {
      token_bucket: { max_tokens: max, tokens_per_fill: { value: fill }, fill_interval: { seconds, nanos } },
    },
  },
});

const blanket = (rule: string, ttl = 300): Omit<SentAction, 'bucket_id'> => ({
  quota_assignment_action: {
    assignment_time_to_live: { seconds: ttl },
    rate_limit_strategy: { blanket_rule: rule },
  },
});

/** Longer than a few requests take on a busy machine. */
const TTL_SECONDS = 8;

/** Sends an action and waits until it has been applied: by Envoy's main thread, which also serves /ready, and workers. */
async function apply({ service, envoy }: Pair, action: Omit<SentAction, 'bucket_id'>): Promise<void> {
  service.send(action);
  for (let turn = 0; turn < 3; turn++) {
    await sleep(250);
    await envoy.admin('/ready');
  }
}

test('Envoy 1.40 opens the stream with the first request of a bucket, and reports one request at once', () => {
  const { service } = usual;
  const [first] = service.reports;
  expect(first?.domain).toBe('edge');
  expect(first?.bucket_quota_usages).toHaveLength(1);
  expect(first?.bucket_quota_usages[0]).toMatchObject({
    bucket_id: { bucket: { generic_key: 'all' } },
    num_requests_allowed: 1,
    num_requests_denied: 0,
  });
});

test('Envoy 1.40 sends the metadata of the stream literally, without substitutions', async () => {
  const { service } = await startPair({ name: '%HOSTNAME%' });
  expect(service.names).toEqual(['%HOSTNAME%']);
});

test('Envoy 1.40 reports every 5 s for any reporting interval, including idle buckets, in whole seconds', async () => {
  const { service } = await startPair({ edit: (config) => config.replace('interval: 5s', 'interval: 1s') });
  await until('two more reports', () => service.reports.length >= 3);
  const [, , third] = service.reports;
  expect(third?.bucket_quota_usages[0]?.time_elapsed.seconds).toBeGreaterThanOrEqual(4); // by Envoy's own clock
  expect(third?.bucket_quota_usages[0]).toMatchObject({ num_requests_allowed: 0, num_requests_denied: 0 });
  expect(third?.bucket_quota_usages[0]?.time_elapsed.nanos ?? 0).toBe(0);
});

test('Envoy 1.40 enforces a token bucket, and the same assignment again neither fills nor empties it', async () => {
  const pair = await freshBucket();
  await apply(pair, tokens({ max: 10 }));
  expect(await pair.envoy.passed(4)).toBe(4);
  await apply(pair, tokens({ max: 10 }));
  expect(await pair.envoy.passed(10)).toBe(6);
});

test('Envoy 1.40 fills a bucket evenly, for any fill interval', async () => {
  const pair = await freshBucket();
  await apply(pair, tokens({ max: 5, fill: 600, seconds: 60 }));
  await pair.envoy.passed(20);
  await sleep(1_000);
  expect(await pair.envoy.passed(5)).toBeGreaterThanOrEqual(3);
});

test('Envoy 1.40 scales the remaining tokens when the size of a bucket changes', async () => {
  const pair = await freshBucket();
  await apply(pair, tokens({ max: 10 }));
  expect(await pair.envoy.passed(4)).toBe(4);
  await apply(pair, tokens({ max: 20 }));
  expect(await pair.envoy.passed(20)).toBe(12);
  await apply(pair, tokens({ max: 10 }));
  expect(await pair.envoy.passed(3)).toBe(0);
});

test('Envoy 1.40 keeps the tokens when only the tokens of a fill change: shares change nothing else', async () => {
  const pair = await freshBucket();
  await apply(pair, tokens({ max: 10, fill: 1 }));
  expect(await pair.envoy.passed(4)).toBe(4);
  await apply(pair, tokens({ max: 10, fill: 3 }));
  expect([5, 6]).toContain(await pair.envoy.passed(10)); // Envoy counts fractions of tokens, and may round 6 down
});

test('Envoy 1.40 fills a bucket that replaces a blanket rule', async () => {
  const pair = await freshBucket();
  await apply(pair, blanket('DENY_ALL'));
  expect(await pair.envoy.passed(3)).toBe(0);
  await apply(pair, tokens({ max: 3 }));
  expect(await pair.envoy.passed(5)).toBe(3);
});

test('Envoy 1.40 does not notice a change in the seconds of a fill interval, unless its nanoseconds change, too', async () => {
  const pair = await freshBucket();
  await apply(pair, tokens({ max: 5, seconds: 86_400 }));
  expect(await pair.envoy.passed(8)).toBe(5);
  await apply(pair, tokens({ max: 5, seconds: 1, fill: 1 }));
  await sleep(2_500);
  expect(await pair.envoy.passed(3)).toBe(0);
  await apply(pair, tokens({ max: 5, seconds: 1, nanos: 1, fill: 1 }));
  await sleep(2_500);
  expect(await pair.envoy.passed(3)).toBeGreaterThanOrEqual(2);
});

test('Envoy 1.40 limits nothing with a fill interval below a second', async () => {
  const pair = await freshBucket();
  await apply(pair, tokens({ max: 2, seconds: 0, nanos: 500_000_000 }));
  expect(await pair.envoy.passed(30)).toBe(30);
});

test('Envoy 1.40 does not support requests per time unit, and keeps the previous assignment', async () => {
  const pair = await freshBucket();
  await apply(pair, blanket('DENY_ALL'));
  await apply(pair, {
    quota_assignment_action: {
      assignment_time_to_live: { seconds: 300 },
      rate_limit_strategy: { requests_per_time_unit: { requests_per_time_unit: 1_000, time_unit: 'SECOND' } },
    },
  });
  expect(await pair.envoy.passed(3)).toBe(0);
});

test('Envoy 1.40 keeps the previous assignment when the next one has no strategy', async () => {
  const pair = await freshBucket();
  await apply(pair, blanket('DENY_ALL'));
  await apply(pair, { quota_assignment_action: { assignment_time_to_live: { seconds: 300 } } });
  expect(await pair.envoy.passed(3)).toBe(0);
});

test('Envoy 1.40 applies the fallback when an assignment has expired, and afterwards the behaviour without an assignment', async () => {
  const pair = await startPair({
    edit: (config) =>
      config
        .replace('expired_assignment_behavior_timeout: 60s', 'expired_assignment_behavior_timeout: 12s')
        .replace(
          /(expired_assignment_behavior_timeout: 12s\n\s*fallback_rate_limit: \{ blanket_rule: )ALLOW_ALL/,
          '$1DENY_ALL',
        ),
  });
  await apply(pair, blanket('ALLOW_ALL', TTL_SECONDS));
  expect(await pair.envoy.passed(3)).toBe(3);
  await until('the assignment has expired', async () => !(await pair.envoy.passes()));
  expect(await pair.envoy.passed(3)).toBe(0);
  await until('the fallback has ended', pair.envoy.passes);
  expect(await pair.envoy.passed(3)).toBe(3);
});

test('Envoy 1.40 ignores reuse_last_assignment, so an expired assignment limits nothing', async () => {
  const pair = await startPair({
    edit: (config) =>
      config.replace(
        /(expired_assignment_behavior_timeout: 60s\n\s*)fallback_rate_limit: \{ blanket_rule: ALLOW_ALL \}/,
        '$1reuse_last_assignment: {}',
      ),
  });
  await apply(pair, blanket('DENY_ALL', TTL_SECONDS));
  expect(await pair.envoy.passed(3)).toBe(0);
  await until('the assignment has expired', pair.envoy.passes);
  expect(await pair.envoy.passed(3)).toBe(3);
});

test('Envoy 1.40 shares a bucket among all its workers', async () => {
  const pair = await startPair({ workers: 4 });
  await apply(pair, tokens({ max: 5 }));
  const passed = await Promise.all(Array.from({ length: 24 }, () => pair.envoy.passes()));
  expect(passed.filter(Boolean)).toHaveLength(5);
});

test('Envoy 1.40 drops an abandoned bucket, and its next request subscribes again', async () => {
  const pair = await freshBucket();
  await apply(pair, blanket('DENY_ALL'));
  await apply(pair, { abandon_action: {} });
  const before = pair.service.reports.length;
  expect(await pair.envoy.passes()).toBe(true);
  await until('the bucket is reported again', () => pair.service.reports.length > before);
  const usage = pair.service.reports[before]?.bucket_quota_usages[0];
  expect(usage).toMatchObject({ num_requests_allowed: 1 });
});

test('Envoy 1.40 reopens an ended stream, reports all buckets, and keeps its assignments meanwhile', async () => {
  const pair = await freshBucket();
  await apply(pair, blanket('DENY_ALL'));
  pair.service.end();
  await sleep(300);
  expect(await pair.envoy.passed(3)).toBe(0);
  await until('the stream is opened again', () => pair.service.reports.some(({ stream }) => stream === 2));
  const [again] = pair.service.reports.filter(({ stream }) => stream === 2);
  expect(again?.domain).toBe('edge');
  expect(again?.bucket_quota_usages[0]?.time_elapsed.seconds).toBeGreaterThan(0);
});

test('Envoy 1.40 refuses a matcher with a regular expression unless it names google_re2', async () => {
  const rules = 'domain: edge\ndescriptors: [{ key: user, rate_limit: { unit: second, requests_per_unit: 9 } }]';
  const edit = (config: string) => config.replaceAll('google_re2: {}, ', '');
  await expect(startQuotaEnvoy(rules, 1, { edit })).rejects.toThrow(/ended/);
});

test('Envoy 1.40 has no statistics of the filter', async () => {
  expect(await usual.envoy.admin('/stats')).not.toMatch(/rate_limit_quota|rlqs/);
});
