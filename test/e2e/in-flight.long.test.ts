import { mkdtemp, writeFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { spends } from '../../src/engine/algorithms/limit.ts';
import { startPageEnvoy } from '../helpers/envoy-page.ts';
import type { Running } from '../helpers/process.ts';
import { type Redis, startRedis } from '../helpers/redis.ts';
import { startWatched } from '../helpers/redis-topologies.ts';
import { requestStatus, Upstream } from '../helpers/upstream.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

/** The time under load for each combination: `IN_FLIGHT_SECONDS=100` for ten minutes in total. */
const LOAD_MS = Number(process.env.IN_FLIGHT_SECONDS ?? 2) * 1_000;
const CLIENTS = 12;
const SLOTS = 2;
const TTL_MS = 7_000;
/** The route's timeout: slower requests are reset. */
const ROUTE_TIMEOUT_MS = 400;

const RULES = `
domain: demo
descriptors:
  - key: tenant
    descriptors:
      - key: request_id
        not_counted: hold
        rate_limit: { algorithm: in_flight, requests_per_unit: ${SLOTS}, ttl: ${TTL_MS}ms }
    rate_limit: { algorithm: in_flight, requests_per_unit: ${SLOTS}, ttl: ${TTL_MS}ms }
  - key: blocked
    rate_limit: { unit: day, requests_per_unit: 0 }
`;

/** Another limit that refuses some of the requests. */
const BLOCKED = `
                                - actions:
                                    - request_headers: { header_name: x-blocked, descriptor_key: blocked }`;

/** How much later than Weir the upstream may notice that Envoy has ended a request. */
const LEARNS_MS = 200;

/** When a request was in flight. */
interface Span {
  readonly tenant: string;
  readonly startMs: number;
  endMs: number;
}

/** A server that records its requests in flight. */
class RecordingUpstream extends Upstream {
  #spans: Span[] = [];
  served = 0;

  constructor() {
    super((asked, answer) => {
      this.served++;
      const startMs = performance.now();
      const span = { tenant: String(asked.headers['x-tenant']), startMs, endMs: Number.POSITIVE_INFINITY };
      this.#spans.push(span);
      const end = (ms: number): void => {
        if (span.endMs === Number.POSITIVE_INFINITY) span.endMs = ms;
      };
      answer.once('close', () => end(performance.now() - LEARNS_MS)); // closed by Envoy, unless it has been answered
      void this.#answer(String(asked.headers['x-what']), answer, () => end(performance.now()));
    });
  }

  /** The most requests of a tenant in flight at once, except those that Envoy had ended. */
  most(tenant: string): number {
    const own = this.#spans.filter((span) => span.tenant === tenant && span.endMs > span.startMs);
    const atStarts = own.map(
      ({ startMs }) => own.filter((one) => one.startMs <= startMs && startMs < one.endMs).length,
    );
    return Math.max(0, ...atStarts);
  }

  clear(): void {
    this.#spans = [];
  }

  async #answer(what: string, answer: ServerResponse, end: () => void): Promise<void> {
    await sleep(30 + Math.random() * 50);
    if (what === 'hang') return;
    end();
    if (what === 'reset') answer.destroy();
    else answer.end('done');
  }
}

/** The page's configuration, with the timeout of this test. */
const startEnvoy = (weirPort: number, upstreamPort: number, edit: (config: string) => string) =>
  startPageEnvoy('in-flight.md', { weirPort, upstreamPort }, (config) =>
    edit(config).replace('timeout: 15s', `timeout: ${ROUTE_TIMEOUT_MS / 1_000}s`),
  );

const WITHOUT_ID = /\n *- request_headers: \{ header_name: x-request-id.*/g;
const withOther = (config: string): string => config.replace(/rate_limits:/, `rate_limits:${BLOCKED}`);

let folder: string;
let redis: Redis;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rules-'));
  await writeFile(join(folder, 'rules.yaml'), RULES);
  redis = await startRedis();
});
afterAll(async () => {
  await redis.stop();
});

const launchWeir = (env: Readonly<Record<string, string>>): Promise<Weir> =>
  startWeir({ ...env, STORE_TIMEOUT: '5s' }, { args: ['--rules', join(folder, 'rules.yaml')] });

interface Stack {
  readonly weir: Weir;
  readonly envoy: Running;
  readonly upstream: RecordingUpstream;
  readonly port: number;
}

const stacks: Stack[] = [];
afterEach(() => Promise.all(stacks.splice(0).map(stopStack)));

async function startStack(env: Readonly<Record<string, string>>, edit = withOther): Promise<Stack> {
  const upstream = new RecordingUpstream();
  const [weir, upstreamPort] = await Promise.all([launchWeir(env), upstream.listen()]);
  const { envoy, port } = await startEnvoy(weir.grpcPort, upstreamPort, edit);
  const stack = { weir, envoy, upstream, port };
  stacks.push(stack);
  await envoy.waitFor(async () => (await call(stack, { tenant: 'first', what: 'end' })) === 200); // Envoy has connected to Weir
  return stack;
}

async function stopStack({ weir, envoy, upstream }: Stack): Promise<void> {
  await Promise.all([envoy.stop('SIGKILL'), weir.stop('SIGKILL')]);
  upstream.close();
}

interface Call {
  readonly tenant: string;
  readonly what: 'end' | 'reset' | 'hang';
  readonly blocked?: boolean;
  readonly abortAfterMs?: number;
  readonly id?: string;
}

function call(
  { port }: Pick<Stack, 'port'>,
  { tenant, what, blocked, abortAfterMs, id }: Call,
): Promise<number | undefined> {
  const headers = {
    'x-tenant': tenant,
    'x-what': what,
    ...(blocked && { 'x-blocked': 'yes' }),
    ...(id && { 'x-request-id': id }),
  };
  return requestStatus(port, headers, abortAfterMs);
}

const oneOf = <T>(list: readonly T[]): T => list[Math.floor(Math.random() * list.length)] as T; // the lists are not empty

/** The statuses of requests that fail in each way, and of those that do not; undefined: aborted by the client. */
const OUTCOMES = [200, 429, 503, 504, undefined] as const;
/** Additional time under load, since some outcomes are rare on a busy machine. */
const MORE_LOAD_MS = 100_000;
const TEST_LIMIT_MS = 300_000 + LOAD_MS;

/**
 * Runs clients that send one request after the other, many of which fail, for this time and until each outcome has
 * occurred.
 */
async function load(
  stack: Pick<Stack, 'port'>,
  tenant: string,
  forMs: number,
  outcomes: readonly (number | undefined)[] = [],
): Promise<void> {
  const missing = new Set(outcomes);
  const endMs = Date.now() + forMs;
  const client = async (): Promise<void> => {
    while (Date.now() < endMs || (missing.size > 0 && Date.now() < endMs + MORE_LOAD_MS)) {
      const what = oneOf(['end', 'end', 'end', 'reset', 'hang'] as const);
      const aborts = Math.random() < 0.2 ? { abortAfterMs: 5 + Math.random() * 60 } : {};
      missing.delete(await call(stack, { tenant, what, blocked: Math.random() < 0.1, ...aborts }));
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  expect([...missing]).toEqual([]);
}

/** Waits until as many requests as there are slots pass at once; fails after a ttl and a margin for a busy machine. */
async function expectAllSlots(stack: Stack, tenant: string): Promise<void> {
  const together = () => Promise.all(Array.from({ length: SLOTS }, () => call(stack, { tenant, what: 'end' })));
  const isUsed = () => stack.upstream.most(tenant) >= SLOTS;
  await stack.envoy.waitFor(
    async () => (await together()).every((status) => status === 200) && isUsed(),
    TTL_MS + 90_000,
  );
}

const stores = { memory: () => ({}), Redis: () => ({ BACKEND_TYPE: 'redis', REDIS_URL: redis.url }) };

/** The ways to spend, each in memory, and in Redis by default one of them, since both stores take the same steps. */
const combinations = spends.flatMap((spend) => [
  ['memory', spend] as const,
  ...(spend === 'all_or_nothing' || process.env.IN_FLIGHT_SECONDS ? [['Redis', spend] as const] : []),
]);

describe('at most two requests are in flight at once', () => {
  test.each(combinations)(
    'counted in %s with spend: %s, and both slots are freed',
    async (store, spend) => {
      const stack = await startStack({ ...stores[store](), SPEND: spend });
      const tenant = `${store}-${spend}`;
      await load(stack, tenant, LOAD_MS, OUTCOMES);
      expect(stack.upstream.most(tenant)).toBeLessThanOrEqual(SLOTS); // a slot may be lost for a ttl
      await expectAllSlots(stack, tenant);
      expect(stack.upstream.most(tenant)).toBe(SLOTS);
    },
    TEST_LIMIT_MS,
  );

  test(
    'without an id, too',
    async () => {
      const stack = await startStack(stores.Redis(), (config) => config.replaceAll(WITHOUT_ID, ''));
      const tenant = 'anonymous';
      await load(stack, tenant, LOAD_MS / 2);
      expect(stack.upstream.most(tenant)).toBeLessThanOrEqual(SLOTS);
      await sleep(TTL_MS + TTL_MS / 64); // with ongoing requests, lost slots would stay
      await expectAllSlots(stack, tenant);
      expect(stack.upstream.most(tenant)).toBe(SLOTS);
    },
    TEST_LIMIT_MS,
  );
});

test('requests with the same client-chosen id hold a slot each', async () => {
  const stack = await startStack({});
  const asked = Array.from({ length: 8 }, () => call(stack, { tenant: 'same-id', what: 'end', id: 'chosen' }));
  expect(await Promise.all(asked)).toContain(429);
  expect(stack.upstream.most('same-id')).toBeLessThanOrEqual(SLOTS);
});

test('with Envoy and Weir killed under load, at most two requests are in flight, and both slots are free after the ttl', async () => {
  const stack = await startStack(stores.Redis());
  const tenant = 'killed';
  const loaded = load(stack, tenant, 2_000);
  await sleep(700);
  await stack.weir.stop('SIGKILL');
  const weir = await launchWeir({ ...stores.Redis(), GRPC_PORT: String(stack.weir.grpcPort) });
  await loaded;
  const again = load(stack, tenant, 1_000);
  await sleep(500);
  await stack.envoy.stop('SIGKILL');
  const second = await startEnvoy(weir.grpcPort, stack.upstream.port, withOther);
  await again;
  const after = { ...stack, weir, ...second };
  await expectAllSlots(after, tenant);
  expect(stack.upstream.most(tenant)).toBe(SLOTS);
  await stopStack(after);
});

test('when Redis fails over, at most one further limit is in flight, and both slots are free after the ttl', async () => {
  const watched = await startWatched();
  const env = {
    BACKEND_TYPE: 'redis',
    REDIS_TYPE: 'SENTINEL',
    REDIS_URL: `${watched.name},127.0.0.1:${watched.sentinelPort}`,
  };
  const stack = await startStack(env);
  const tenant = 'failed-over';
  const loaded = load(stack, tenant, 6_000);
  await sleep(1_000);
  await watched.master.kill();
  await loaded;
  expect(stack.upstream.most(tenant)).toBeLessThanOrEqual(2 * SLOTS);
  await expectAllSlots(stack, tenant);
  stack.upstream.clear();
  await load(stack, tenant, 1_000);
  await expectAllSlots(stack, tenant);
  expect(stack.upstream.most(tenant)).toBe(SLOTS);
  await watched.stop();
});
