import '../../helpers/realm.ts';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type QuotaEnvoy, startQuotaEnvoy } from '../../helpers/quota-envoy.ts';
import { admissible, mostAboveBound, type QuotaLoad, startQuotaLoad } from '../../helpers/quota-load.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { eventually, until } from '../../helpers/until.ts';
import { asLocal, startWeir, type Weir } from '../../helpers/weir.ts';

// The long form, also with ten Envoys: QUOTA_SECONDS=600 npx jest test/parts/quotas/bound
const SECONDS = Number(process.env.QUOTA_SECONDS ?? 20);
const RATE = 40;
const BURST = 16;
const RULES = `
domain: edge
descriptors: [{ key: generic_key, value: all, rate_limit: { unit: second, requests_per_unit: ${RATE}, algorithm: token_bucket, burst: ${BURST} } }]
`;

/** Waits for a proxy's first assignment: before it, the proxy admits every request, which must not count. */
const hasAssignment = (load: QuotaLoad): Promise<void> =>
  eventually(
    () => load.refused() > 0,
    () => 'the proxy has refused nothing: it has no assignment',
  );

/** The requests of all loads that were sent after a time and passed. */
const passedSince = (loads: readonly QuotaLoad[], fromMs: number) =>
  loads.flatMap(({ passed }) => passed.filter(({ sentAtMs }) => sentAtMs > fromMs));

/** Waits until so many requests that were sent after a time have passed. */
const untilPassed = (loads: readonly QuotaLoad[], fromMs: number, count: number): Promise<void> =>
  until(`${count} requests pass`, () => passedSince(loads, fromMs).length > count);

let folder: string;
let redis: Redis;
const running: { stop(): Promise<unknown> }[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'rules-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  redis = await startRedis();
});
afterEach(async () => {
  await Promise.all(running.splice(0).map((one) => one.stop()));
});
afterAll(async () => {
  await redis.stop();
});

/** A share lasts longer than a service takes to start on a busy machine: without one, Envoy admits everything. */
const RULES_ENV = { RLQS: 'true', RLQS_TTL: '60s', USE_STATSD: 'false', BACKEND_TYPE: 'redis' };

/** Starts a service, on the port of one that has ended if that is given. */
async function startService(prefix: string, grpcPort?: number): Promise<Weir> {
  const weir = await startWeir({
    ...{ ...RULES_ENV, REDIS_URL: redis.url, RULES_PATH: join(folder, 'rules.yaml'), CACHE_KEY_PREFIX: prefix },
    ...(grpcPort !== undefined && { GRPC_PORT: String(grpcPort) }),
  });
  running.push(weir);
  return weir;
}

async function startAll(count: number): Promise<{ readonly weir: Weir; readonly envoys: readonly QuotaEnvoy[] }> {
  const weir = await startService(`${count}|`);
  const envoys = await Promise.all(
    Array.from({ length: count }, (_, at) => startQuotaEnvoy(RULES, weir.grpcPort, { name: `envoy-${at}` })),
  );
  running.push(...envoys);
  return { weir, envoys };
}

test(
  'one Envoy 1.40 admits at most the rate and the burst in every window, uses nearly all of the rate, and stays within the bound when its service is replaced and Redis killed',
  async () => {
    const { weir, envoys } = await startAll(1);
    const load = startQuotaLoad(envoys[0] as QuotaEnvoy, 1.5 * RATE);
    await hasAssignment(load);
    const fromMs = performance.now();
    await sleep((SECONDS / 4) * 1_000);
    const quiet = load.passed.filter(({ sentAtMs }) => sentAtMs > fromMs);
    expect(mostAboveBound(quiet, RATE, BURST + 1)).toBeLessThanOrEqual(0);
    const answeredAtMs = load.answeredAtMs.filter((atMs) => atMs > fromMs);
    const most = admissible(answeredAtMs, RATE, BURST); // less than the rate if a busy machine sends none for a while
    expect(most).toBeGreaterThan(0);
    expect(answeredAtMs.length).toBeGreaterThan(1.2 * most);
    expect(quiet.length).toBeGreaterThan(0.85 * most);

    await weir.stop('SIGTERM');
    const next = await startService('1|', weir.grpcPort);
    const list = async () =>
      JSON.parse(
        await (await fetch(`http://127.0.0.1:${next.debugPort}/api/v1/quotas`, { headers: asLocal(next) })).text(),
      );
    await until('the other service has a report', async () => (await list()).quotas.length > 0);
    expect(await list()).toMatchObject({ quotas: [{ proxy: 'envoy-0', rule: expect.any(String) }] });
    await untilPassed([load], performance.now(), 2 * RATE);

    await redis.kill();
    await sleep(4_000);
    await redis.restart();
    const backMs = performance.now();
    await sleep(5_000);
    await untilPassed([load], backMs, 3 * RATE);
    await load.stop();
    // the lost share is not counted for one report, see docs/rlqs.md; an Envoy that gets it again has it only once
    expect(mostAboveBound(passedSince([load], fromMs), RATE, BURST + 1)).toBeLessThanOrEqual(BURST);
  },
  (SECONDS + 300) * 1_000,
);

test.each(SECONDS > 20 ? [3, 10] : [3])(
  '%d Envoys 1.40 together admit at most the rate in every window, while their load is skewed, moves and stops, one of them dies, and the service is killed and replaced',
  async (count) => {
    const { weir, envoys } = await startAll(count);
    const little = (0.4 * RATE) / (count - 1);
    const loads = envoys.map((envoy) => startQuotaLoad(envoy, 2 * RATE));
    await Promise.all(loads.map(hasAssignment));
    const fromMs = performance.now();
    const phase = (SECONDS / 4) * 1_000;
    const set = (perSecond: (at: number) => number) => {
      for (const [at, load] of loads.entries()) load.perSecond = perSecond(at);
    };
    set((at) => (at === 0 ? 2 * RATE : little));
    await sleep(phase);
    set((at) => (at === count - 1 ? 2 * RATE : little)); // the load moves
    await sleep(phase);
    set((at) => (at === 1 ? 0 : (2 * RATE) / (count - 1))); // one stops
    await sleep(phase);
    await envoys[0]?.stop('SIGKILL'); // one dies
    await sleep(phase);
    await weir.stop('SIGKILL');
    await startService(`${count}|`, weir.grpcPort);
    await sleep(phase);
    await untilPassed(loads, fromMs, 0.5 * RATE * SECONDS);
    await Promise.all(loads.map((load) => load.stop()));
    const passed = passedSince(loads, fromMs);
    // a growing share may add tokens: each change of the number of proxies scales the remaining tokens
    expect(mostAboveBound(passed, RATE, BURST + count)).toBeLessThanOrEqual(BURST);
  },
  (SECONDS + 300) * 1_000,
);
