import '../helpers/realm.ts';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient, type GrpcClient } from '../helpers/grpc-client.ts';
import { clientOf, startWatched } from '../helpers/redis-topologies.ts';
import { asLocal, startWeir, type Weir } from '../helpers/weir.ts';

const REQUESTS = 10;
const RESERVED = 1_000;
const USED = 1_200;
/** The longest that a sentinel may take on a busy machine. */
const FAILOVER_MS = 60_000;

const RULES = `
domain: llm
descriptors:
  - key: tenant
    descriptors:
      - key: request_id
        not_counted: hold
        rate_limit: { unit: year, requests_per_unit: 100000, reserve: { ttl: 60s, on_overrun: debt } }
        descriptors: [{ key: used, not_counted: commit }]
`;

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** The service with a Redis behind a sentinel, and a direct client of the service. */
async function startBehindSentinel() {
  const watched = await startWatched();
  closing.push(() => watched.stop());
  const folder = mkdtempSync(join(tmpdir(), 'rules-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  const weir = await startWeir({
    ...{
      BACKEND_TYPE: 'redis',
      REDIS_TYPE: 'sentinel',
      REDIS_URL: `${watched.name},127.0.0.1:${watched.sentinelPort}`,
    },
    ...{ RULES_PATH: join(folder, 'rules.yaml'), USE_STATSD: 'false' },
  });
  closing.push(() => weir.stop());
  const client = createClient(`127.0.0.1:${weir.grpcPort}`);
  closing.push(client.close);
  return { watched, weir, client };
}

/** @param used  commits this usage; absent: reserves */
function send(client: GrpcClient, id: string, used?: number) {
  const entries = [
    { key: 'tenant', value: 'moved' },
    { key: 'request_id', value: id },
    ...(used === undefined ? [] : [{ key: 'used', value: 'tokens' }]),
  ];
  const hits_addend = { value: used ?? RESERVED };
  const descriptors = [{ entries, limit: null, hits_addend, is_negative_hits: false }];
  return client.send({ domain: 'llm', descriptors, hits_addend: 0 });
}

const ids = Array.from({ length: REQUESTS }, (_, at) => `request-${at}`);

/** The charged hits of the counter, and those on hold; undefined: the store is unreachable. */
async function standing({ debugPort }: Weir) {
  const query = `domain=llm&descriptor=${encodeURIComponent('tenant=moved')}`;
  const answer = await fetch(`http://127.0.0.1:${debugPort}/api/v1/counters?${query}`, {
    headers: asLocal({ debugPort }),
  });
  const { counters: [counter] = [] } = JSON.parse(await answer.text());
  return counter && { charged: counter.used - counter.onHold, onHold: counter.onHold };
}

const metric = async ({ debugPort }: Weir, name: string): Promise<number> => {
  const page = await (await fetch(`http://127.0.0.1:${debugPort}/metrics`)).text();
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(page)?.[1]);
};

const isCharged = async (weir: Weir): Promise<boolean> =>
  (await standing(weir))?.charged === REQUESTS * USED && (await standing(weir))?.onHold === 0;

test('commits sent while Redis has no master are charged once by the next one', async () => {
  const { watched, weir, client } = await startBehindSentinel();
  const sentinel = clientOf({ port: watched.sentinelPort });
  closing.push(() => sentinel.disconnect());
  const failOverAfter = (ms: number) =>
    sentinel.call('SENTINEL', 'SET', watched.name, 'down-after-milliseconds', String(ms));
  await failOverAfter(FAILOVER_MS * 60); // not before the commits
  for (const { overall_code } of await Promise.all(ids.map((id) => send(client, id)))) expect(overall_code).toBe(1);
  await watched.master.stop();
  await weir.waitFor('no connection to master');
  const sent = await Promise.allSettled(ids.map((id) => send(client, id, USED)));
  expect(sent.filter(({ status }) => status === 'rejected')).toHaveLength(REQUESTS);
  expect(await metric(weir, 'weir_pending_commits')).toBe(REQUESTS);
  await failOverAfter(500);
  await weir.waitFor(() => isCharged(weir), FAILOVER_MS);
  expect(await metric(weir, 'weir_pending_commits')).toBe(0);
  expect(await metric(weir, 'weir_pending_commits_sent_total')).toBe(REQUESTS);
  expect(await metric(weir, 'weir_pending_commits_dropped_total')).toBe(0);
  await Promise.all(ids.map((id) => send(client, id, USED))); // repeated, like clients without an answer
  expect(await standing(weir)).toEqual({ charged: REQUESTS * USED, onHold: 0 });
});

test('commits sent as soon as the service is connected again are charged once', async () => {
  const { watched, weir, client } = await startBehindSentinel();
  await Promise.all(ids.map((id) => send(client, id)));
  await watched.master.stop();
  await weir.waitFor((printed) => /connected to master .* again/.test(printed), FAILOVER_MS);
  await Promise.allSettled(ids.map((id) => send(client, id, USED)));
  await weir.waitFor(() => isCharged(weir), FAILOVER_MS);
});
