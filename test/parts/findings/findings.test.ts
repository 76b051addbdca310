import '../../helpers/realm.ts';
import { serialize } from 'node:v8';
import { shownBy } from '../../../src/operate/admin/shown.ts';
import { Evidence } from '../../../src/parts/findings/evidence.ts';
import { listedFinding } from '../../../src/parts/findings/operations.ts';
import { Proxies } from '../../../src/parts/findings/proxies.ts';
import type { FindingKind } from '../../../src/parts/lab/answers/findings.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { zipf } from '../../helpers/numbers.ts';
import { createProxiedTraffic, type ProxiedTraffic, sent } from '../../helpers/proxied-traffic.ts';

const RULES = [
  `
domain: llm
descriptors:
  - key: user
    charged_later: true
    rate_limit: { unit: minute, requests_per_unit: 4000000000 }
  - key: model
    descriptors:
      - key: id
        not_counted: hold
        rate_limit: { unit: minute, requests_per_unit: 4000000000, reserve: { ttl: 60s } }
        descriptors: [{ key: used, not_counted: commit }]
`,
  `
domain: shop
descriptors:
  - { key: user, rate_limit: { unit: second, requests_per_unit: 10 } }
  - { key: path, rate_limit: { unit: second, requests_per_unit: 1000 } }
  - { key: login, count_when: 401, rate_limit: { unit: second, requests_per_unit: 1000 } }
  - key: tenant
    descriptors:
      - { key: id, not_counted: hold, rate_limit: { algorithm: in_flight, requests_per_unit: 300, ttl: 60s } }
  - key: tenant
    value: k1
    descriptors:
      - { key: id, not_counted: hold, rate_limit: { algorithm: in_flight, requests_per_unit: 2, ttl: 60s } }
`,
];

const A = '10.0.0.1';
const B = '10.0.0.2';

/** Requests of one proxy in a tenth of a second; the second argument is a part of its behaviour that may go wrong. */
type Traffic = (traffic: ProxiedTraffic, proxy: string, isWrong: boolean) => void;

let ids = 0;

/** As agentgateway does: a check of no tokens, then a charge, whose descriptors it may have lost. */
const tokens: Traffic = (traffic, proxy, isWrong) => {
  const user = zipf(traffic.random, 50);
  traffic.send(proxy, 'llm', [sent({ user }, 0)]);
  traffic.after(20_000 * traffic.random(), () => {
    traffic.send(proxy, 'llm', isWrong ? [] : [sent({ user }, 50 + Math.floor(900 * traffic.random()))]);
  });
};

/** As agentgateway does where an expression of a charge has no value: the charge is not sent. */
const unchargedTokens: Traffic = (traffic, proxy, isWrong) => {
  if (!isWrong) return tokens(traffic, proxy, false);
  traffic.send(proxy, 'llm', [sent({ user: zipf(traffic.random, 50) }, 0)]);
};

/** As Envoy does where `hits_addend` is in `rate_limits` of a route: it sends one hit instead of the status. */
const logins: Traffic = (traffic, proxy, isWrong) => {
  const login = zipf(traffic.random, 50);
  traffic.send(proxy, 'shop', [sent({ login }, 1)]);
  traffic.after(2_000 * traffic.random(), () => traffic.send(proxy, 'shop', [sent({ login }, isWrong ? 1 : 200)]));
};

const reserved =
  (longestMs: number): Traffic =>
  (traffic, proxy, isWrong) => {
    const entries = { model: 'm', id: `r${ids++}` };
    traffic.send(proxy, 'llm', [sent(entries, 100)]);
    if (isWrong) return;
    const lastsMs = traffic.random() ** 4 * longestMs; // most requests are short
    traffic.after(lastsMs, () => traffic.send(proxy, 'llm', [sent({ ...entries, used: '1' }, 80)]));
  };

/** The release of a request that was refused frees nothing, which is no mistake. */
const inFlight: Traffic = (traffic, proxy, isWrong) => {
  const entries = { tenant: zipf(traffic.random, 3), id: `s${ids++}` };
  traffic.send(proxy, 'shop', [sent({ ...entries, ...(isWrong && { id: `other${ids}` }) }, 1)]);
  traffic.after(2_000 * traffic.random(), () => traffic.send(proxy, 'shop', [sent(entries, -1)]));
};

/** As agentgateway does where `jwt.sub` has no value: it drops this descriptor alone. */
const withoutUser: Traffic = (traffic, proxy, isWrong) => {
  const user = sent({ user: zipf(traffic.random, 1_000) });
  traffic.send(proxy, 'shop', [sent({ path: '/' }), ...(isWrong ? [] : [user])]);
};

/** Half of the clients of an ordinary service are anonymous. */
const anonymous: Traffic = (traffic, proxy, isWrong) => {
  const user = isWrong || traffic.random() < 0.5 ? '-' : zipf(traffic.random, 1_000);
  traffic.send(proxy, 'shop', [sent({ user })]);
};

const requestIds: Traffic = (traffic, proxy, isWrong) => {
  for (let at = 0; at < 10; at++) {
    const user = isWrong ? `u${ids++}` : zipf(traffic.random, 100);
    traffic.send(proxy, 'shop', [sent({ user, path: '/' })]);
  }
};

const symptoms: readonly (readonly [FindingKind, string, Traffic, object])[] = [
  ['call_without_descriptors', 'charges that have lost their descriptors', tokens, { domain: 'llm' }],
  ['check_without_charge', 'checks of a rule with charged_later', unchargedTokens, { rule: 'llm.user' }],
  ['check_without_charge', 'responses without a status', logins, { rule: 'shop.login' }],
  ['check_without_charge', 'reservations', reserved(15_000), { rule: 'llm.model.id' }],
  ['release_without_acquire', 'releases under another id', inFlight, { rule: 'shop.tenant.id' }],
  ['descriptor_missing_at_proxy', 'a descriptor that one proxy drops', withoutUser, { domain: 'shop' }],
  ['placeholder_values', 'a key that is always -', anonymous, { example: [{ key: 'user', value: '-' }] }],
  ['cardinality_jump', 'a key that became a request id', requestIds, { domain: 'shop' }],
];

test.each(symptoms)('%s is found within 60 s: %s', async (kind, _, send, details) => {
  for (const deciders of [1, 2]) {
    const traffic = createProxiedTraffic(RULES, { deciders });
    const { findings, nowMs } = traffic;
    const both = (isWrong: boolean) => (): boolean => {
      send(traffic, A, false);
      send(traffic, B, isWrong);
      return isWrong && findings.list().some((one) => one.kind === kind);
    };
    await traffic.pass(133, both(false));
    expect(findings.list()).toEqual([]);
    const beganAtMs = nowMs();
    await traffic.pass(60, both(true));
    expect(findings.list()).toContainEqual(
      expect.objectContaining({
        kind,
        ...details,
        ...(kind !== 'cardinality_jump' && { proxy: B, connection: expect.stringContaining(`${B}:5000`) }),
        problem: expect.stringContaining(kind === 'cardinality_jump' ? 'different values' : B),
      }),
    );
    const [found] = findings.list().filter((one) => one.kind === kind);
    expect(found?.sinceMs).toBeGreaterThanOrEqual(beganAtMs - 20_000);
    expect(findings.counts().get(kind)).toBe(1);
    await traffic.pass(240, both(false));
    expect(findings.list()).toEqual([]);
  }
});

test('slots whose limit is named as overrides are have findings like others', async () => {
  const named = RULES.map((text) => text.replaceAll('ttl: 60s }', 'ttl: 60s, name: override }'));
  const traffic = createProxiedTraffic(named);
  await traffic.pass(65, () => {
    inFlight(traffic, A, true);
    return false;
  });
  expect(traffic.findings.list()).toMatchObject([{ kind: 'release_without_acquire', rule: 'shop.tenant.id' }]);
});

test.each([{ kind: 'block' }, { kind: 'exempt' }, { kind: 'limit', requestsPerUnit: 9, unit: 'SECOND' }] as const)(
  'releases of requests that hold no slot under the override %j are no mistake',
  async (effect) => {
    const traffic = createProxiedTraffic(RULES);
    const send = (): boolean => {
      inFlight(traffic, A, false);
      return traffic.findings.list().length > 0;
    };
    await traffic.pass(65, send);
    const named = { domain: 'shop', entries: [{ key: 'tenant', value: 'k*' }], wildcard: true } as const;
    traffic.overrides.replace([{ ...named, effect, untilMs: Number.MAX_SAFE_INTEGER, by: '', reason: '' }]);
    await traffic.pass(30, send);
    traffic.overrides.replace([]);
    await traffic.pass(10, send);
    expect(traffic.findings.list()).toEqual([]);
  },
);

test('hits that are counted only up to their bound are found, and releases with a status are not', async () => {
  const traffic = createProxiedTraffic([
    'domain: d\ndescriptors: [{ key: used, rate_limit: { unit: day, requests_per_unit: 5, name: n } }, { key: slot, descriptors: [{ key: id, not_counted: hold, rate_limit: { algorithm: in_flight, requests_per_unit: 1, ttl: 60s } }] }]',
  ]);
  await traffic.pass(10, () => {
    traffic.send(A, 'd', [sent({ used: 'a' }, -500)]);
    traffic.send(A, 'd', [sent({ slot: 'a', id: 'x' }, -503)]);
    return false;
  });
  expect(traffic.findings.list()).toEqual([]);
  traffic.send(A, 'd', [sent({ used: 'a' }, -4_000_000_000)]);
  await traffic.pass(10, () => false);
  expect(traffic.findings.list()).toMatchObject([
    {
      kind: 'hits_beyond_bound',
      rule: 'd.used',
      problem: expect.stringMatching(/ of 4000000000, the last time, 500 were counted$/),
      example: [{ key: 'used', value: 'a' }],
    },
  ]);
});

test.each([1, 2])('reservations that lapse are found within 60 s, by key: %d deciders', async (deciders) => {
  const traffic = createProxiedTraffic(RULES, { deciders });
  const { findings } = traffic;
  const lapsed = () => findings.list().filter(({ kind }) => kind === 'reservations_lapsed');
  const send = (model: string, isCommitted: boolean): void => {
    const entries = { model, id: `l${ids++}` };
    traffic.send(A, 'llm', [sent(entries, 100)]);
    if (isCommitted) traffic.after(1_000, () => traffic.send(A, 'llm', [sent({ ...entries, used: '1' }, 80)]));
  };
  let requests = 0;
  await traffic.pass(30, () => {
    send('read', true);
    if (requests++ % 60 === 0) send('lost', false); // five of these
    if (requests % 100 === 0) send('read', false); // as clients that break off
    return false;
  });
  await traffic.pass(60, () => false);
  await traffic.pass(60, () => lapsed().length > 0);
  await traffic.pass(20, () => false);
  expect(lapsed()).toEqual([
    expect.objectContaining({
      rule: 'llm.model.id',
      example: [{ key: 'model', value: 'lost' }],
      problem: expect.stringMatching(
        /^5 of 5 reservations of one key of rule 'llm\.model\.id' .*: 500 hits stay charged as they were reserved/,
      ),
    }),
  ]);
  await traffic.pass(240, () => false);
  expect(findings.list()).toEqual([]);
});

test('100,000 requests of honest traffic raise no finding', async () => {
  const seen = new Set<string>();
  let requests = 0;
  for (let seed = 1; requests < 100_000; seed++) {
    const traffic = createProxiedTraffic(RULES, { deciders: 1 + (seed % 3), seed });
    let load = 1;
    await traffic.pass(600, () => {
      if (traffic.random() < 0.002) load = 4 * traffic.random() ** 2; // loads change, and may stop
      for (const proxy of [A, B]) {
        if (traffic.random() > load) continue;
        for (const send of [tokens, reserved(50_000), inFlight, withoutUser, anonymous])
          if (traffic.random() < 0.5) send(traffic, proxy, false);
      }
      for (const { kind, problem } of traffic.findings.list()) seen.add(`${kind}: ${problem}`);
      return false;
    });
    requests += traffic.requests();
  }
  expect([...seen]).toEqual([]);
});

test('proxies that serve different routes are not compared, nor those with few requests', async () => {
  const traffic = createProxiedTraffic(RULES);
  await traffic.pass(120, () => {
    traffic.send(A, 'shop', [sent({ user: zipf(traffic.random, 100) })]);
    traffic.send(B, 'shop', [sent({ path: '/' })]);
    if (traffic.random() < 0.1) traffic.send('10.0.0.3', 'shop', [sent({ user: 'ann' })]);
    return false;
  });
  expect(traffic.findings.list()).toEqual([]);
});

test('a shared limit that refuses calls of ever new children is found, and none of many children that it has room for', async () => {
  const rulesOf = (rate: number) =>
    `domain: d\ndescriptors: [{ key: api, rate_limit: { unit: second, requests_per_unit: ${rate}, share: { by: tenant } } }]`;
  const kinds = await Promise.all(
    [50, 10_000].map(async (rate) => {
      const traffic = createProxiedTraffic([rulesOf(rate)]);
      await traffic.pass(30, () => {
        for (let at = 0; at < 20; at++) traffic.send(A, 'd', [sent({ api: 'v1', tenant: `t${ids++}` })]);
        return false;
      });
      return traffic.findings.list();
    }),
  );
  expect(kinds).toMatchObject([
    [
      {
        kind: 'many_new_children',
        rule: 'd.api.tenant',
        problem: expect.stringContaining("512 values of its key 'tenant'"),
      },
    ],
    [],
  ]);
});

test('callers that invent domains, keys, values and names fill a bounded amount of memory', async () => {
  const evidence = new Evidence(fakeClock());
  const long = 'x'.repeat(16_000);
  for (let at = 0; at < 5_000; at++) {
    const caller = { header: () => `${at}${long}`, connection: { address: undefined } };
    const entries = Array.from({ length: 64 }, (_, key) => ({ key: `${key}-${at}`, value: `${at}${long}` }));
    const descriptors = Array.from({ length: 16 }, () => ({ ...sent({}), entries }));
    const request = { domain: `${at}${long}`, descriptors, hits_addend: 1 };
    evidence.answered(request, { overallCode: 'OK', verdicts: [], shadowed: false, delayMs: 0 }, caller);
    evidence.invalid({ ...request, descriptors: [] }, caller);
    evidence.committed(request.domain);
    if (at % 1_000 === 0) evidence.rotate();
  }
  const report = evidence.report();
  for (const { length } of [report.calls, report.traffic, report.committed]) expect(length).toBeLessThanOrEqual(256);
  expect(serialize(report).length).toBeLessThan(2_000_000);
});

test.each([
  [{ 'x-weir-proxy': 'edge-1', 'x-envoy-downstream-service-node': 'node-1' }, 'edge-1'],
  [{ 'x-envoy-downstream-service-node': 'node-1' }, 'node-1'],
  [{}, '2001:db8::1'],
])('a proxy with the headers %j is named %s', (headers: Readonly<Record<string, string>>, proxy) => {
  const caller = { header: (name: string) => headers[name], connection: { address: { host: '2001:db8::1', port: 7 } } };
  expect(new Proxies().identify(caller)).toEqual({ proxy, connection: '[2001:db8::1]:7' });
});

test('values in examples are hidden from clients that may not read them', () => {
  const standing = {
    kind: 'check_without_charge',
    sinceMs: 0,
    confirmedAtMs: 0,
    example: [{ key: 'user', value: 'ann' }],
  };
  const listed = (seesValues: boolean) => listedFinding(standing as never, shownBy(seesValues, undefined)); // all that it reads
  expect(listed(true)).toMatchObject({ example: [{ key: 'user', value: 'ann' }] });
  expect(JSON.stringify(listed(false))).not.toContain('ann');
});
