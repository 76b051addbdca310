import '../../helpers/realm.ts';
import { randomUUID } from 'node:crypto';
import { decodeRequest } from '../../../src/edge/wire/codec.ts';
import type { WireRequest } from '../../../src/edge/wire/wire.ts';
import type { Backend } from '../../../src/engine/backends/backend.ts';
import { createCounterKeys, ownCounters } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { decide } from '../../../src/engine/decide/decide.ts';
import type { Entry } from '../../../src/engine/rules/match/match.ts';
import { changeCounters, listCounters, readCounters } from '../../../src/parts/counters/named-counters.ts';
import { renderCounters } from '../../../src/parts/counters/render.ts';
import { explain } from '../../../src/parts/explain/explain.ts';
import { renderExplanation } from '../../../src/parts/explain/render.ts';
import { paintFor } from '../../../src/parts/lab/commands/paint.ts';
import { describeShare } from '../../../src/parts/lab/counters/counter-state.ts';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { openReady } from '../../helpers/connection.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { extrasOf } from '../../helpers/extras.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { childOf, fairShareOf } from '../../helpers/shares.ts';

let server: Redis;
let ledger: ReturnType<typeof ledgerOf>;
beforeAll(async () => {
  server = await startRedis();
});
afterEach(() => ledger.close());
afterAll(() => server.stop());

const clock = fakeClock();
const stores: Readonly<Record<string, () => Promise<Backend>>> = {
  memory: async () => createMemoryBackend(clock, { maxCounters: 100 }),
  Redis: async () => new RedisBackend(await openReady(server), clock, { replay: true, slowMs: 60_000 }),
};

const rules = rulesFrom(`
domain: demo
descriptors:
  - key: api
    value: x
    rate_limit: { unit: second, requests_per_unit: 100, share: { by: tenant } }
    descriptors:
      - { key: tenant, value: a, share: { reserve: 20%, ceiling: 60 } }
      - { key: tenant, value: b, share: { reserve: 30 } }
`);

/** Explains hits, and spends them, with the same outcome. */
async function explainAndDecide(entries: readonly Entry[], hits: number, options: Parameters<typeof explain>[1]) {
  const descriptor = { entries, limit: null, hits_addend: { value: hits }, is_negative_hits: false };
  const wire: WireRequest = { domain: 'demo', descriptors: [descriptor], hits_addend: 0 };
  const explained = await explain(wire, options);
  const answer = await decide(decodeRequest(wire), options.decider, Number.POSITIVE_INFINITY);
  expect(explained.decision?.code).toBe(answer.overallCode);
  return explained;
}

const entriesOf = (key: string, value: string) => [{ key, value }];

test.each(Object.keys(stores))(
  'says what a child has used, borrowed, and must leave to others, in %s',
  async (name) => {
    const store = await (stores[name] as () => Promise<Backend>)();
    ledger = ledgerOf(store);
    const counters = ownCounters(createCounterKeys(`${randomUUID()}:`));
    const decider = { ...deciderOf(rules, { clock, ledger }), ledger, counters, storeBudget: () => 60_000 };
    const options = { decider, extras: extrasOf({}) };
    const texts: string[] = [];
    for (const [tenant, hits] of [
      ['a', 61],
      ['a', 20],
      ['a', 7],
      ['b', 1],
      ['c', 45],
      ['a', 30],
      ['b', 20],
      ['a', 1],
      ['c', 1],
    ] as const) {
      const entries = [
        { key: 'api', value: 'x' },
        { key: 'tenant', value: tenant },
      ];
      const explained = await explainAndDecide(entries, hits, options);
      const [limit] = explained.descriptors[0]?.limits ?? [];
      texts.push(`${tenant} ${hits}: ${limit?.code} ${limit?.arithmetic}`);
      if (tenant === 'b') expect(renderExplanation(explained, paintFor(false, undefined))).toContain(limit?.arithmetic);
    }
    expect(texts).toEqual([
      'a 61: OVER_LIMIT this tenant has reached its ceiling of 60 per second',
      'a 20: OK 20 used in this second, 0 of its reservation left',
      'a 7: OK 27 used in this second, 7 borrowed while others lend: tenant b (30 per second); its reservation of 20 is used up',
      'b 1: OK 1 used in this second, 29 of its reservation left',
      'c 45: OVER_LIMIT 0 used in this second; what is left, at most 29, is reserved for tenant b (29)',
      'a 30: OK 57 used in this second, 37 borrowed while others lend: tenant b (29 per second); its reservation of 20 is used up',
      'b 20: OK 21 used in this second, 9 of its reservation left',
      'a 1: OK 58 used in this second, 38 borrowed while others lend: tenant b (9 per second); its reservation of 20 is used up',
      'c 1: OK 1 used in this second, within its fair share',
    ]);
    const shown = (tenant: string, value: string) =>
      readCounters({ domain: 'demo', entries: [{ key: 'api', value: 'x' }, ...entriesOf(tenant, value)] }, decider);
    clock.advance(100);
    const ofB = await shown('tenant', 'b');
    expect(ofB.counters[0]).toMatchObject({
      state: { used: 70, remaining: 23, share: { used: 21, borrowed: 0, unspent: 12, held: 2 } },
      about: {
        children: [
          { key: 'tenant', value: 'b', own: true, used: 21, lends: 9, reserve: 30 },
          { value: 'a', used: 58, borrowed: 38, lends: 0, ceiling: 60 },
        ],
      },
    });
    const ofLimit = await readCounters({ domain: 'demo', entries: [{ key: 'api', value: 'x' }] }, decider);
    expect(ofLimit.counters[0]?.state).toMatchObject({ used: 70, remaining: 11 });
    expect(ofLimit.counters[0]?.about.children).toMatchObject([
      { value: 'a', used: 58 },
      { value: 'b', unspent: 12 },
    ]);
    const listed = await listCounters({ domain: 'demo' }, decider);
    expect(listed.counters).toMatchObject([{ used: 70, remaining: 11 }]);
    const { counters: all } = await shown('tenant', 'b');
    const rendered = renderCounters(
      {
        domain: 'demo',
        entries: entriesOf('tenant', 'b'),
        counters: all.map(({ about, state }) => ({ ...about, ...state })),
      },
      paintFor(false, undefined),
    );
    expect(rendered).toContain('tenant=b (own): 21 used in this second, 0 borrowed, lends 9 of 30 reserved');
    const given = await changeCounters(
      { domain: 'demo', entries: [{ key: 'api', value: 'x' }, ...entriesOf('tenant', 'a')] },
      { kind: 'grant', hits: 10 },
      decider,
    );
    expect(given.counters[0]?.state).toMatchObject({ used: 60, share: { used: 48 } });
    const ask = (hits: number) => {
      const entries = [{ key: 'api', value: 'x' }, ...entriesOf('tenant', 'a')];
      return decide({ domain: 'demo', descriptors: [{ entries, requestLimit: undefined, hits }] }, decider, 60_000);
    };
    clock.advance(800);
    await ask(17);
    clock.advance(100); // the next second
    await ask(6); // more than is left of its reservation
    const { counters: later } = await shown('tenant', 'b');
    expect(later[0]?.about.children?.[1]).toMatchObject({ value: 'a', used: 6, borrowed: 6, unspent: 5, lends: 0 });
  },
);

test.each(Object.keys(stores))('says who holds, borrows and reserves slots, in %s', async (name) => {
  const store = await (stores[name] as () => Promise<Backend>)();
  ledger = ledgerOf(store);
  const slots = rulesFrom(`
domain: demo
descriptors:
  - key: api
    value: x
    descriptors:
      - key: id
        not_counted: hold
        rate_limit: { algorithm: in_flight, requests_per_unit: 10, ttl: 30s, share: { by: tenant } }
        descriptors:
          - { key: tenant, value: a, share: { reserve: 20%, ceiling: 8 } }
          - { key: tenant, value: b, share: { reserve: 3 } }
`);
  const counters = ownCounters(createCounterKeys(`${randomUUID()}:`));
  const decider = { ...deciderOf(slots, { clock, ledger }), ledger, counters, storeBudget: () => 60_000 };
  const options = { decider, extras: extrasOf({}) };
  const texts: string[] = [];
  for (const [id, tenant, hits] of [
    [1, 'a', 9],
    [2, 'a', 5],
    [3, 'b', 1],
    [4, 'c', 3],
    [5, 'c', 2],
    [6, 'b', 3],
    [7, 'c', 1],
  ] as const) {
    const entries = [...entriesOf('api', 'x'), ...entriesOf('id', `${id}`), ...entriesOf('tenant', tenant)];
    const explained = await explainAndDecide(entries, hits, options);
    const [limit] = explained.descriptors[0]?.limits ?? [];
    texts.push(`${tenant} ${hits}: ${limit?.code} ${limit?.arithmetic}`);
  }
  expect(texts).toEqual([
    'a 9: OVER_LIMIT this tenant has reached its ceiling of 8 slots',
    'a 5: OK 5 slots held, 3 borrowed while others lend: tenant b (3 slots); its reservation of 2 is used up',
    'b 1: OK 1 slot held, 2 of its reservation left',
    'c 3: OVER_LIMIT 0 slots held; what is left, at most 2, is reserved for tenant b (2)',
    'c 2: OK 2 slots held, within its fair share',
    'b 3: OVER_LIMIT all slots are used up by all tenant values',
    'c 1: OVER_LIMIT 2 slots held; what is left, at most 3, is reserved for tenant b (2)',
  ]);
  const { counters: found } = await readCounters(
    { domain: 'demo', entries: [...entriesOf('api', 'x'), ...entriesOf('tenant', 'b')] },
    decider,
  );
  expect(found[0]).toMatchObject({
    state: { used: 8, remaining: 2, share: { used: 1, borrowed: 0, unspent: 2 } },
    about: {
      children: [
        { value: 'b', own: true, used: 1, lends: 0, reserve: 3, slots: true },
        { value: 'a', used: 5, borrowed: 3, reserve: 2 },
      ],
    },
  });
});

test('names the two siblings that lend most, or that most is reserved for, and counts the others', () => {
  const [limit, one] = [
    fairShareOf(1_000, { path: [childOf({ reserve: 20 })] }),
    { key: 'tenant', borrowed: 0, weight: 1 },
  ];
  const children = [5, 40, 30, 10].map((hits) => ({
    ...one,
    value: `t${hits}`,
    used: 0,
    unspent: hits,
    lends: hits,
    reserve: 50,
  }));
  const idle = { ...one, value: 'idle', idle: true, used: 0, unspent: 50, lends: 0, reserve: 50 } as const;
  const report = { level: 0, used: 27, borrowed: 7, unspent: 0, held: 85 };
  expect(describeShare(limit, { ...report, reason: 'passed' }, children)).toBe(
    '27 used in this second, 7 borrowed while others lend: tenant t40 (40 per second), tenant t30 (30 per second) and 2 others; its reservation of 20 is used up',
  );
  expect(describeShare(limit, { ...report, reason: 'held' }, [idle, ...children.slice(1)])).toBe(
    '27 used in this second; what is left, at most 85, is reserved for tenant idle (50), tenant t40 (40) and 2 others',
  );
});
