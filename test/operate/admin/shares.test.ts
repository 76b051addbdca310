import '../../helpers/realm.ts';
import { randomUUID } from 'node:crypto';
import { renderExplanation } from '../../../src/cli/commands/explain.ts';
import { paintFor } from '../../../src/cli/commands/paint.ts';
import type { Backend } from '../../../src/engine/backends/backend.ts';
import { createCounterKeys, ownCounters } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { RedisBackend } from '../../../src/engine/backends/redis/backend.ts';
import { decide } from '../../../src/engine/decide/decide.ts';
import { decodeRequest } from '../../../src/engine/wire/codec.ts';
import type { WireRequest } from '../../../src/engine/wire/wire.ts';
import { explain } from '../../../src/operate/admin/explain.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { openReady } from '../../helpers/connection.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { extrasOf } from '../../helpers/extras.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { rulesFrom } from '../../helpers/rules.ts';

let server: Redis;
beforeAll(async () => {
  server = await startRedis();
});
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

test.each(Object.keys(stores))(
  'says what a child has used, borrowed, and must leave to others, in %s',
  async (name) => {
    const store = await (stores[name] as () => Promise<Backend>)();
    const ledger = ledgerOf(store);
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
      const descriptor = { entries, limit: null, hits_addend: { value: hits }, is_negative_hits: false };
      const wire: WireRequest = { domain: 'demo', descriptors: [descriptor], hits_addend: 0 };
      const explained = await explain(wire, options);
      const answer = await decide(decodeRequest(wire), decider, Number.POSITIVE_INFINITY);
      expect(explained.decision?.code).toBe(answer.overallCode);
      const [limit] = explained.descriptors[0]?.limits ?? [];
      texts.push(`${tenant} ${hits}: ${limit?.code} ${limit?.arithmetic}`);
      if (tenant === 'b') expect(renderExplanation(explained, paintFor(false, undefined))).toContain(limit?.arithmetic);
    }
    expect(texts).toEqual([
      'a 61: OVER_LIMIT this tenant has reached its ceiling of 60 per second',
      'a 20: OK 20 used in this second, 0 of its reservation left',
      'a 7: OK 27 used in this second, 7 borrowed from idle siblings; its reservation of 20 is used up',
      'b 1: OK 1 used in this second, 29 of its reservation left',
      'c 45: OVER_LIMIT 0 used in this second; what is left, at most 29, is reserved for active siblings',
      'a 30: OK 57 used in this second, 37 borrowed from idle siblings; its reservation of 20 is used up',
      'b 20: OK 21 used in this second, 9 of its reservation left',
      'a 1: OVER_LIMIT 57 used in this second; this tenant has used its fair share among those that ask',
      'c 1: OK 1 used in this second, within its fair share',
    ]);
    await ledger.close();
  },
);
