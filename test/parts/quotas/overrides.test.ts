import '../../helpers/realm.ts';
import { strategyOf } from '../../helpers/quota-client.ts';
import { startQuotaEnvoy } from '../../helpers/quota-envoy.ts';
import { useQuotaService } from '../../helpers/quota-service.ts';
import { until } from '../../helpers/until.ts';
import type { Weir } from '../../helpers/weir.ts';

const RULES = `
domain: edge
descriptors:
  - { key: user, rate_limit: { unit: minute, requests_per_unit: 6000, algorithm: token_bucket, burst: 64 } }
  - { key: held, rate_limit: { algorithm: in_flight, requests_per_unit: 2, ttl: 9s } }
  - { key: timed, rate_limit: { unit: minute, requests_per_unit: 6000, active: { days: mon-sun } } }
  - { key: failed, count_when: 401, rate_limit: { unit: minute, requests_per_unit: 6000 } }
  - { key: generic_key, value: all, rate_limit: { unit: second, requests_per_unit: 1000 } }
`;
const SECRET = '0123456789abcdef0123456789abcdef';

const stage = useQuotaService(RULES);
const { launch, open } = stage;
let weir: Weir;

beforeAll(async () => {
  weir = await launch({ ADMIN_TOKEN: SECRET });
});
afterAll(() => weir.stop());

type Named = Readonly<Record<string, string>>;

async function change(method: 'PUT' | 'DELETE', of: Named, body: object): Promise<void> {
  const descriptor = Object.entries(of).map(([key, value]) => ({ key, value }));
  const answer = await fetch(`http://127.0.0.1:${weir.debugPort}/api/v1/overrides`, {
    method,
    headers: { authorization: `Bearer ${SECRET}` },
    body: JSON.stringify({ domain: 'edge', descriptor, reason: 'a test', ...body }),
  });
  expect(await answer.json()).toMatchObject({ entries: descriptor });
}

const set = (of: Named, effect: object, lastsMs = 60_000) =>
  change('PUT', of, { ...effect, until: new Date(Date.now() + lastsMs).toISOString() });

// no stream reports a bucket twice: all but its first assignment are sent unasked

test('a block is sent to every proxy without a report, and its removal gives the share back', async () => {
  const streams = [open('a', weir), open('b', weir)];
  for (const stream of streams) {
    stream.report({ user: 'ann' }, 1);
    expect(strategyOf(await stream.next())?.token_bucket?.max_tokens).toBeGreaterThan(0);
    stream.report({ user: 'other' }, 1);
    await stream.next();
  }
  await set({ user: 'ann' }, { effect: 'block' });
  for (const stream of streams) {
    const actions = await stream.next();
    expect(actions.map(({ bucket_id }) => bucket_id.bucket)).toEqual([{ user: 'ann' }]);
    expect(strategyOf(actions)?.blanket_rule).toBe('DENY_ALL');
  }
  const late = open('c', weir);
  late.report({ user: 'ann' }, 1);
  expect(strategyOf(await late.next())?.blanket_rule).toBe('DENY_ALL');
  late.close();
  await change('DELETE', { user: 'ann' }, {});
  for (const stream of streams) {
    const actions = await stream.next();
    expect(actions.map(({ bucket_id }) => bucket_id.bucket)).toEqual([{ user: 'ann' }]);
    expect(strategyOf(actions)?.token_bucket?.tokens_per_fill?.value).toBeGreaterThan(0);
    expect(stream.waiting).toBe(0);
  }
});

test('an exemption allows everything, another limit replaces that of the rule, and both end at their time', async () => {
  const stream = open('d', weir);
  stream.report({ user: 'bob' }, 1);
  await stream.next();
  await set({ user: 'bob' }, { effect: 'exempt' });
  expect(strategyOf(await stream.next())?.blanket_rule).toBe('ALLOW_ALL');
  await set({ user: 'bob' }, { effect: 'limit', requestsPerUnit: 1_200, unit: 'MINUTE' }, 3_000);
  const lower = strategyOf(await stream.next())?.token_bucket;
  expect(lower?.tokens_per_fill?.value).toBeLessThanOrEqual(1_200);
  expect(lower?.max_tokens).toBe(1_200);
  let last: typeof lower;
  while (last?.max_tokens !== 64) last = strategyOf(await stream.next())?.token_bucket;
  expect(last.tokens_per_fill?.value).toBeGreaterThan(1_200);
});

test.each(['held', 'timed', 'failed'])(
  'an override applies to a bucket of the rule %s, which proxies cannot apply',
  async (key) => {
    const stream = open(key, weir);
    const bucket = { [key]: 'x' };
    stream.report(bucket, 1);
    expect(strategyOf(await stream.next())?.blanket_rule).toBe('ALLOW_ALL'); // RLQS_UNKNOWN
    await set(bucket, { effect: 'block' });
    expect(strategyOf(await stream.next())?.blanket_rule).toBe('DENY_ALL');
    await set(bucket, { effect: 'limit', requestsPerUnit: 1_200, unit: 'MINUTE' });
    expect(strategyOf(await stream.next())?.token_bucket?.max_tokens).toBe(1_200);
    await set(bucket, { effect: 'exempt' });
    expect(strategyOf(await stream.next())?.blanket_rule).toBe('ALLOW_ALL');
  },
);

test('Envoy refuses everything soon after a block, and passes requests after its removal', async () => {
  const envoy = await startQuotaEnvoy(RULES, weir.grpcPort, { name: 'real' });
  try {
    await until('Envoy has a share', async () => {
      await envoy.passes();
      const page = await fetch(`http://127.0.0.1:${weir.debugPort}/api/v1/quotas?rule=edge.generic_key_all`, {
        headers: { authorization: `Bearer ${SECRET}` },
      });
      return (await page.text()).includes('"assigned":"share"');
    });
    expect(await envoy.passed(5)).toBe(5);
    await set({ generic_key: 'all' }, { effect: 'block' });
    await until('Envoy refuses', async () => !(await envoy.passes()));
    expect(await envoy.passed(5)).toBe(0);
    await change('DELETE', { generic_key: 'all' }, {});
    await until('Envoy passes requests', () => envoy.passes());
  } finally {
    await envoy.stop();
  }
});
