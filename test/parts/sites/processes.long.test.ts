import '../../helpers/realm.ts';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Random } from '../../../src/parts/simulate/random.ts';
import { createAuthority, writeCertificate } from '../../helpers/certificates.ts';
import { createClient } from '../../helpers/grpc-client.ts';
import { freePort } from '../../helpers/process.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { type SiteProxy, startSiteProxy } from '../../helpers/site-proxy.ts';
import { startWeir, type Weir } from '../../helpers/weir.ts';

// The long form, with a partition of a minute: SITE_PARTITION_SECONDS=60 npx jest test/parts/sites/processes
const PARTITION_MS = Number(process.env.SITE_PARTITION_SECONDS ?? 6) * 1_000;
const WINDOW_MS = 4_000;
const LIMIT = 120;
const DELAY_MS = 80;
const DROPPED = 0.2;
/** No calls start this close to the end of a window, since their window would be uncertain. */
const GUARD_MS = 300;
/** Until when a load is repeated. */
const PATIENCE_MS = 250_000;

const TEST_TIMEOUT_MS = PATIENCE_MS + 300_000;
jest.setTimeout(TEST_TIMEOUT_MS);

const RULES = `
domain: edge
descriptors:
  - key: all
    rate_limit: { window: ${WINDOW_MS}ms, requests_per_unit: ${LIMIT}, sites: { mode: escrow } }
`;

interface RunningSite {
  /** The instances, with one Redis; the other site calls the first. */
  readonly weirs: readonly Weir[];
  readonly redis: Redis;
  readonly clients: readonly ReturnType<typeof createClient>[];
}

const authority = createAuthority();
const random = new Random(11);
let folder: string;
const sites: RunningSite[] = [];
const proxies: SiteProxy[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sites-'));
  const rules = join(folder, 'rules.yaml');
  writeFileSync(rules, RULES);
  const ca = writeCertificate(folder, 'authority', authority).cert;
  const names = ['east', 'west'];
  const ports = [await freePort(), await freePort()];
  const proxyPorts = [await freePort(), await freePort()];
  const shared = { authority, delayMs: DELAY_MS, dropped: DROPPED, random: () => random.uniform() };
  for (const [at, port] of ports.entries()) proxies.push(await startSiteProxy(port, proxyPorts[at] ?? 0, shared));
  for (const [at, name] of names.entries()) {
    const { cert, key } = writeCertificate(folder, name, authority.issue('127.0.0.1'));
    const redis = await startRedis();
    const instance = (sitePort: number) =>
      startWeir({
        ...{ RULES_PATH: rules, USE_STATSD: 'false', BACKEND_TYPE: 'redis', REDIS_URL: redis.url },
        STORE_TIMEOUT: '60s',
        ...{ SITE: name, SITE_HOST: '127.0.0.1', SITE_PORT: String(sitePort) },
        SITE_PEERS: `${names[1 - at]}=127.0.0.1:${proxyPorts[1 - at]}`,
        ...{ SITE_TLS_CERT: cert, SITE_TLS_KEY: key, SITE_TLS_CACERT: ca },
      });
    const second = at === 0 ? [await instance(await freePort())] : [];
    const weirs = [await instance(ports[at] ?? 0), ...second];
    sites.push({ weirs, redis, clients: weirs.map(({ grpcPort }) => createClient(`127.0.0.1:${grpcPort}`)) });
  }
});
afterAll(async () => {
  for (const { weirs, redis, clients } of sites) {
    for (const client of clients) client.close();
    for (const weir of weirs) await weir.stop();
    await redis.stop();
  }
  for (const proxy of proxies) await proxy.close();
});

const windowOf = (atMs: number): number => atMs - (atMs % WINDOW_MS);

/** Admitted requests by window and site, without those whose window is uncertain. */
const admitted = new Map<number, [number, number]>();

let sent = 0;

/** Sends one request, to the instances in turn; it counts if it began and ended in the same window. */
async function request(place: 0 | 1): Promise<void> {
  const entries = [{ key: 'all', value: 'x' }];
  const descriptors = [{ entries, limit: null, hits_addend: null, is_negative_hits: false }];
  const startMs = Date.now();
  const { clients = [] } = sites[place] ?? {};
  const response = await clients[sent++ % clients.length]?.send({ domain: 'edge', descriptors, hits_addend: 1 });
  const window = windowOf(startMs);
  if (window !== windowOf(Date.now()) || response?.overall_code !== 1) return;
  const found = admitted.get(window) ?? [0, 0];
  found[place]++;
  admitted.set(window, found);
}

/** Sends a number of requests for each site in every window, until the time is over. */
async function load(perWindow: readonly [number, number], forMs: number): Promise<void> {
  const endMs = Date.now() + forMs;
  const calls: Promise<void>[] = [];
  const stepMs = 20;
  const due = [0, 0];
  while (Date.now() < endMs) {
    const leftMs = WINDOW_MS - (Date.now() % WINDOW_MS);
    if (leftMs < GUARD_MS) await sleep(leftMs + 5);
    for (const place of [0, 1] as const) {
      due[place] = (due[place] ?? 0) + (perWindow[place] * stepMs) / WINDOW_MS;
      for (; (due[place] ?? 0) >= 1; due[place] = (due[place] ?? 0) - 1) calls.push(request(place));
    }
    await sleep(stepMs);
  }
  await Promise.all(calls);
}

/** As `load`, and again until enough is admitted: a machine that stalls leaves windows without requests. */
async function loadUntil(
  isEnough: () => boolean | Promise<boolean>,
  perWindow: readonly [number, number],
  forMs = WINDOW_MS,
): Promise<void> {
  const endMs = performance.now() + PATIENCE_MS;
  do await load(perWindow, forMs);
  while (!(await isEnough()) && performance.now() < endMs);
}

/** Whether a site has been admitted this part of the limit in a window since the last call of `fullest`. */
const hasAdmitted = (place: 0 | 1, part: number) => (): boolean =>
  Array.from(admitted.values()).some((counts) => counts[place] > part * LIMIT);

const sums = (): readonly number[] => [...admitted.values()].map(([one, other]) => one + other);

/** The admitted requests of a site in the fullest window since the last call. */
function fullest(place: 0 | 1): number {
  const most = Math.max(...Array.from(admitted.values(), (counts) => counts[place]));
  expect(Math.max(...sums())).toBeLessThanOrEqual(LIMIT);
  admitted.clear();
  return most;
}

test('a site lends another one its unused hits, and both together never exceed the limit', async () => {
  const isEnough = hasAdmitted(0, 0.85);
  const hasDropped = (): boolean => proxies.some(({ dropped }) => dropped > 0);
  await loadUntil(() => isEnough() && hasDropped(), [3 * LIMIT, 0]);
  expect(fullest(0)).toBeGreaterThan(0.85 * LIMIT);
  expect(hasDropped()).toBe(true);
});

test('the limit follows demand that moves to the other site', async () => {
  await loadUntil(hasAdmitted(1, 0.85), [0, 3 * LIMIT]);
  expect(fullest(1)).toBeGreaterThan(0.85 * LIMIT);
});

test(
  'each site keeps its own part during a partition, and no window exceeds the limit',
  async () => {
    for (const proxy of proxies) proxy.cut(PARTITION_MS + 2 * PATIENCE_MS);
    const isNoticed = (): boolean =>
      sites.every(({ weirs }) => weirs.some((weir) => weir.output().includes('exchanging hits with site')));
    const isEnough = hasAdmitted(0, 0.4);
    await loadUntil(() => isNoticed() && isEnough(), [2 * LIMIT, 2 * LIMIT], PARTITION_MS);
    for (const proxy of proxies) proxy.cut(0);
    expect(isNoticed()).toBe(true);
    expect(fullest(0)).toBeGreaterThan(0.4 * LIMIT);
  },
  PARTITION_MS + TEST_TIMEOUT_MS,
);

test('exchanges continue after a partition, and are visible to operators', async () => {
  const isEnough = hasAdmitted(0, 0.85);
  const page = async () => (await fetch(`http://127.0.0.1:${sites[0]?.weirs[0]?.debugPort}/metrics`)).text();
  const hasBorrowed = async () => /^weir_site_borrowed_hits_total\{peer="west"\} [1-9]/m.test(await page());
  await loadUntil(async () => isEnough() && (await hasBorrowed()), [3 * LIMIT, 0]);
  expect(fullest(0)).toBeGreaterThan(0.85 * LIMIT);
  expect(await hasBorrowed()).toBe(true);
  expect(await page()).toMatch(/^weir_site_failures_total\{peer="west"\} [1-9]/m);
});
