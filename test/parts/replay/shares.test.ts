import '../../helpers/realm.ts';
import { decodeRequest } from '../../../src/edge/wire/codec.ts';
import { ReplayEngine, replay } from '../../../src/parts/replay/engine.ts';
import { ReplayFigures } from '../../../src/parts/replay/figures.ts';
import { TrafficCounts } from '../../../src/parts/replay/input.ts';
import { parseMapping } from '../../../src/parts/replay/mapping/mapping.ts';
import { ReportData } from '../../../src/parts/replay/report/report-data.ts';
import type { RecordedTraffic } from '../../../src/parts/replay/request.ts';
import { simulated } from '../../../src/parts/simulate/simulate.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { requestOf } from '../../helpers/trial.ts';

const engineWith = (limit: string, children = ''): ReplayEngine =>
  new ReplayEngine(
    rulesFrom(`
domain: demo
descriptors:
  - { key: api, value: x, rate_limit: { unit: second, ${limit} }, descriptors: [${children}] }
`),
    { shadowMode: false, quotaMode: false, spend: 'each', memory: { maxCounters: 10_000, maxBytes: 10_000_000 } },
  );

async function figuresOf(traffic: RecordedTraffic, rules: ReplayEngine, against?: ReplayEngine) {
  const figures = new ReplayFigures();
  await replay(traffic, { rules, against, observers: [figures], counts: new TrafficCounts(), onBatch: () => {} });
  return figures.result();
}

/** Requests in order, each a tenant and the milliseconds before it. */
async function* trafficOf(requests: readonly (readonly [tenant: string, afterMs: number])[]): RecordedTraffic {
  let timeMs = 1_700_000_000_000;
  yield requests.map(([tenant, afterMs]) => {
    timeMs += afterMs;
    return { timeMs, request: decodeRequest(requestOf(`api=x,tenant=${tenant}`)) };
  });
}

test('replay says which child of a shared limit is refused, and which one a change would refuse', async () => {
  const children = '{ key: tenant, value: a, share: { reserve: 3 } }, { key: tenant, share: {} }';
  const shared = 'requests_per_unit: 4, share: { by: tenant }';
  const traffic = trafficOf([
    ['a', 0],
    ['flood', 0],
    ['flood', 0],
    ['flood', 0], // what is left is reserved
    ['a', 0],
    ['a', 0],
    ['other', 0],
  ]);
  const whole = engineWith('requests_per_unit: 4, share: { by: tenant, spare: 0% }');
  const { rules, against, change } = await figuresOf(traffic, whole, engineWith(shared, children));
  const refusedKeys = (figures: typeof rules | undefined) =>
    figures?.rules
      .get('demo.api_x.tenant')
      ?.mostRefused.map(({ key, refusals }) => [/[^:]*$/.exec(key)?.[0], refusals]);
  expect(refusedKeys(rules)).toEqual([
    ['a', 2],
    ['other', 1],
  ]);
  expect(refusedKeys(against)).toEqual([
    ['flood', 2],
    ['other', 1],
  ]);
  expect(change).toMatchObject({ keysNewlyHurt: 1, keysNewlySpared: 1 });
});

test('requests in flight of a child are those of one client, whatever their ids', async () => {
  const rules = rulesFrom(`
domain: demo
descriptors:
  - key: api
    descriptors:
      - key: id
        not_counted: hold
        rate_limit: { algorithm: in_flight, requests_per_unit: 2, ttl: 30s, share: { by: tenant, spare: 0% } }
`);
  const memory = { maxCounters: 10_000, maxBytes: 10_000_000 };
  const engine = new ReplayEngine(rules, { shadowMode: false, quotaMode: false, spend: 'each', memory });
  async function* traffic(): RecordedTraffic {
    const sent = ['1', '2', '3', '4'].map((id) => requestOf(`api=x,id=${id},tenant=a`));
    yield sent.map((one, at) => ({ timeMs: 1_700_000_000_000 + at, request: decodeRequest(one) }));
  }
  const figures = await figuresOf(traffic(), engine);
  expect(figures.rules.rules.get('demo.api.id.tenant')).toMatchObject({ keysHurt: 1, refused: 2 });
});

test('in a simulation, users that share a limit are seldom refused because of a scraper', async () => {
  const parsed = parseMapping(
    'shared',
    `domain: demo
rate_limits:
  - actions:
      - generic_key: { descriptor_key: api, descriptor_value: x }
      - request_headers: { header_name: x-user, descriptor_key: user }
label: { field: label, allow: allow, refuse: refuse }
`,
  );
  if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems));
  const { mapping } = parsed;
  const rate = 'requests_per_unit: 8';
  const all = engineWith(
    rate,
    `{ key: user, value: '*', share_threshold: true, rate_limit: { unit: second, ${rate} } }`,
  );
  const shared = engineWith(`${rate}, share: { by: user }`);
  const [one, other] = await Promise.all(
    [all, shared].map(async (engine) => (await figuresOf(simulated('scraper', 1, mapping), engine)).labels),
  );
  expect(one?.wrong).toBeGreaterThan(2 * (other?.wrong ?? Number.POSITIVE_INFINITY));
  expect(other?.missed).toBeLessThan((one?.missed ?? 0) / 1.2);
});

test('replay names the counter of a requirement that refuses before the rule of the request', async () => {
  const rules = rulesFrom(`
domain: demo
require: { keys: [customer], per: [tenant], limit: { unit: minute, requests_per_unit: 1 } }
descriptors:
  - { key: tenant, rate_limits: [{ unit: minute, requests_per_unit: 9 }, { unit: hour, requests_per_unit: 90 }] }
`);
  const memory = { maxCounters: 10_000, maxBytes: 10_000_000 };
  const engine = new ReplayEngine(rules, { shadowMode: false, quotaMode: false, spend: 'each', memory });
  const recorded = { timeMs: 1_700_000_000_000, request: decodeRequest(requestOf('tenant=a')) };
  const { descriptors } = engine.answer(recorded);
  expect(descriptors).toEqual([
    expect.objectContaining({
      rule: 'demo.missing_customer.tenant',
      key: 'fixed_window.2|60000|4:demo|7:missing|8:customer|6:tenant|1:a',
    }),
  ]);
  async function* traffic(): RecordedTraffic {
    yield [recorded, recorded];
  }
  const { rules: figures } = await figuresOf(traffic(), engine);
  expect(figures.refused).toBe(2); // the first request has spent the only hit
  expect(figures.rules.get('demo.missing_customer.tenant')).toMatchObject({ requests: 2, refused: 2 });
  expect(figures.rules.get('demo.tenant')).toMatchObject({ requests: 2, refused: 0 });
});

test.each<[recorded: 'as decided' | 'admitted', before: number, hurt: number]>([
  ['as decided', 2, 0],
  ['admitted', 0, 2],
])(
  'answers that were recorded %s are those of the rule and of the requirement beside it',
  async (recorded, before, hurt) => {
    const rules = rulesFrom(`
domain: demo
require: { keys: [customer], per: [tenant], limit: { unit: hour, requests_per_unit: 1 } }
descriptors: [{ key: tenant, rate_limit: { unit: minute, requests_per_unit: 1 } }]
`);
    const memory = { maxCounters: 10_000, maxBytes: 10_000_000 };
    const open = () => new ReplayEngine(rules, { shadowMode: false, quotaMode: false, spend: 'each', memory });
    const service = open();
    async function* traffic(): RecordedTraffic {
      yield [0, 1, 2].map((ms) => {
        const one = { timeMs: 1_700_000_000_000 + ms, request: decodeRequest(requestOf('tenant=a')) };
        const { code, descriptors } = service.answer(one);
        const decided = {
          code,
          descriptors: descriptors.map((own) => ({ code: own.code, remaining: own.remaining ?? 0 })),
        };
        const admitted = { code: 'OK', descriptors: [{ code: 'OK', remaining: 5 }] } as const;
        return { ...one, answer: recorded === 'admitted' ? admitted : decided };
      });
    }
    const [figures, data] = [new ReplayFigures(), new ReportData()];
    await replay(traffic(), {
      ...{ rules: open(), against: undefined, observers: [figures, data] },
      ...{ counts: new TrafficCounts(), onBatch: () => {} },
    });
    expect(figures.result().change?.keysNewlyHurt).toBe(hurt);
    const refusals = Array.from(data.rules.values(), ({ keys }) => [...keys.all].map(([, key]) => key));
    expect(refusals).toEqual([before, before].map((of) => [expect.objectContaining({ before: of, after: 2 })]));
  },
);

test("the limit of an override is not shown as that of the rule, and its keys' refusals are counted", async () => {
  const rules = engineWith('requests_per_unit: 4');
  const effect = { kind: 'limit', requestsPerUnit: 1, unit: 'HOUR' } as const;
  const entries = [{ key: 'api', value: 'x' }];
  const override = { domain: 'demo', entries, effect, untilMs: 1_700_000_060_000, by: '', reason: '' };
  const request = decodeRequest(requestOf('api=x'));
  async function* traffic(): RecordedTraffic {
    yield [0, 1, 60_000].map((atMs, at) => ({
      timeMs: 1_700_000_000_000 + atMs,
      request,
      ...(at === 0 && { overrides: [override] }),
    }));
  }
  const { rules: figures } = await figuresOf(traffic(), rules);
  expect(figures.rules.get('demo.api_x')).toMatchObject({
    ...{ requests: 3, refused: 1 },
    peak: { hits: 1, limit: 4, windowMs: 1_000 },
  });
});
