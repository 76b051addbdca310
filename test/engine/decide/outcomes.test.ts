import { createEngine, type Engine } from '../../../src/engine/create-engine.ts';
import fc from '../../helpers/property.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { loadText } from '../../helpers/rules.ts';

let redis: Redis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());

const storeOf = (name: 'memory' | 'redis') => (name === 'memory' ? name : { redis: `redis://127.0.0.1:${redis.port}` });

const LIMIT = 'unit: year, requests_per_unit: 3';

/** Nodes whose counters do not change with time: of two algorithms, and with a penalty. */
const rules = (spend: string): string => `
domain: d
spend: ${spend}
descriptors:
  - { key: window, count_when: 401|403|5xx, rate_limit: { ${LIMIT} } }
  - { key: bucket, count_when: 401|403|5xx, rate_limit: { ${LIMIT}, algorithm: token_bucket } }
  - { key: blocked, count_when: 401|403|5xx, rate_limit: { ${LIMIT}, penalty: { block: 365d } } }
  - key: reserved
    descriptors:
      - key: id
        not_counted: hold
        rate_limit: { ${LIMIT}, reserve: { ttl: 1d } }
        descriptors: [{ key: status, not_counted: commit, count_when: 401|403|5xx }]
`;

async function ask(engine: Engine, key: string, value: string, hits: number): Promise<boolean> {
  const entries = [{ key, value }];
  return (await engine.decide({ domain: 'd', descriptors: [{ entries, hits }] })).overallCode === 'OK';
}

const keys = ['window', 'bucket', 'blocked'] as const;
const statuses = [200, 302, 400, 401, 403, 404, 429, 500, 503, 0];
let names = 0;

test.each([
  ['memory', 'each'],
  ['memory', 'all_or_nothing'],
  ['redis', 'each'],
  ['redis', 'all_or_nothing'],
  ['redis', 'spare_others'],
] as const)(
  'any responses in %s, spend: %s: a request passes while fewer than three have failed',
  async (store, spend) => {
    const engine = await createEngine({ rules: { text: rules(spend) }, store: storeOf(store) });
    const anyCalls = fc.array(fc.tuple(fc.constantFrom(...keys), fc.constantFrom(...statuses)), { maxLength: 25 });
    await fc.assert(
      fc.asyncProperty(anyCalls, async (calls) => {
        const value = `${spend} ${names++}`;
        const failed = { window: 0, bucket: 0, blocked: 0 };
        for (const [key, status] of calls) {
          expect(await ask(engine, key, value, 1)).toBe(failed[key] < 3);
          expect(await ask(engine, key, value, 0)).toBe(failed[key] < 3); // asks as well
          if (status > 0) await ask(engine, key, value, status);
          if ([401, 403, 500, 503].includes(status)) failed[key]++;
        }
      }),
      { numRuns: 40 },
    );
    await engine.close();
  },
);

test.each(['memory', 'redis'] as const)('of reserved hits in %s only failures stay charged', async (store) => {
  const engine = await createEngine({ rules: { text: rules('all_or_nothing') }, store: storeOf(store) });
  const send = async (id: string, hits: number, status?: string) => {
    const entries = [
      { key: 'reserved', value: `${store}` },
      { key: 'id', value: id },
      ...(status === undefined ? [] : [{ key: 'status', value: status }]),
    ];
    return (await engine.decide({ domain: 'd', descriptors: [{ entries, hits }] })).overallCode === 'OK';
  };
  for (let at = 0; at < 20; at++) {
    expect(await send(`good ${at}`, 1)).toBe(true);
    await send(`good ${at}`, 200, 'any');
  }
  for (const id of ['1', '2', '3']) expect(await send(id, 1)).toBe(true);
  expect(await send('4', 1)).toBe(false); // three are in flight
  for (const id of ['1', '2']) await send(id, 401, 'any');
  await send('3', 200, 'any');
  expect(await send('5', 1)).toBe(true);
  await send('5', 503, 'any');
  expect(await send('6', 1)).toBe(false);
  await engine.close();
});

test('a response is no request: it is neither refused nor counted by statistics of refusals', async () => {
  const engine = await createEngine({ rules: { text: rules('each') } });
  const send = async (hits: number) => {
    const { verdicts, overallCode } = await engine.decide({
      domain: 'd',
      descriptors: [{ entries: [{ key: 'window', value: 'v' }], hits }],
    });
    const [verdict] = verdicts;
    return verdict?.kind === 'limited' ? [overallCode, verdict.hits, verdict.decision.limitRemaining] : [];
  };
  expect(await send(1)).toEqual(['OK', 0, 3]);
  expect(await send(401)).toEqual(['OK', 1, 2]);
  expect(await send(200)).toEqual(['OK', 0, 2]);
  expect(await send(401)).toEqual(['OK', 1, 1]);
  expect(await send(500)).toEqual(['OK', 1, 0]);
  expect(await send(1)).toEqual(['OVER_LIMIT', 1, 0]);
  expect(await send(401)).toEqual(['OK', 1, 0]); // its request has passed, by another instance or before
  expect(await send(200)).toEqual(['OK', 0, 0]);
  expect(await send(1)).toEqual(['OVER_LIMIT', 1, 0]);
  expect(await send(-1)).toEqual(['OK', -1, 0]);
  expect(await send(-1)).toEqual(['OK', -1, 1]); // given back
  await engine.close();
});

test.each([
  [
    'rate_limit: { algorithm: in_flight, requests_per_unit: 3, ttl: 30s }, count_when: 401',
    'goes with limits on rates; with reserve, put it on the node with not_counted: commit, whose hits are then the status',
  ],
  [`rate_limit: { ${LIMIT} }, count_when: 6xx`, "must be statuses such as 401|403|5xx, got '6xx'"],
  [`rate_limit: { ${LIMIT} }, count_when: 401|`, "must be statuses such as 401|403|5xx, got '401|'"],
])('a rule with %s is refused', (more, message) => {
  const loaded = loadText(`domain: d\ndescriptors: [{ key: k, ${more} }]\n`);
  if (loaded.ok) throw new Error('expected a problem');
  expect(loaded.problems.map((one) => one.message)).toEqual([expect.stringContaining(message)]);
});
