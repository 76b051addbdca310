import { once } from 'node:events';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { Agent, createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type PrintedEnvoy, startPrintedEnvoy } from '../helpers/printed-envoy.ts';
import { type Redis, startRedis } from '../helpers/redis.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

/** The length of each of three phases: `ADAPT_SECONDS=60` for three minutes in total. */
const PHASE_MS = Number(process.env.ADAPT_SECONDS ?? 15) * 1_000;
/** After each change, the time in which the limit finds the capacity. */
const FINDS_MS = 10_000;
const ENVOYS = 3;
const WORKERS = 20;
const WORK_MS = 100;

const RULES = `
domain: demo
descriptors:
  - key: service
    descriptors:
      - key: request_id
        not_counted: hold
        rate_limit: { algorithm: in_flight, ttl: 30s, adapt: {} }
`;

/** A server that works on a number of requests at a time; the others wait in order. */
class Upstream {
  workers = WORKERS;
  readonly #waiting: (() => void)[] = [];
  #busy = 0;
  readonly #server: Server = createServer(async (asked, answer) => {
    if (this.#busy >= this.workers) await new Promise<void>((start) => this.#waiting.push(start));
    this.#busy++;
    await sleep(WORK_MS);
    this.#busy--;
    while (this.#busy < this.workers && this.#waiting.length > 0) this.#waiting.shift()?.();
    const what = asked.headers['x-what'];
    if (what === 'reset') answer.destroy();
    else answer.writeHead(what === 'fail' ? 500 : 200).end();
  });

  async listen(): Promise<number> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return (this.#server.address() as AddressInfo).port;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

interface Stack {
  readonly weir: Weir;
  readonly envoys: readonly PrintedEnvoy[];
  readonly upstream: Upstream;
}

let redis: Redis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());

let stack: Stack;
afterEach(async () => {
  await Promise.all([...stack.envoys.map(({ envoy }) => envoy.stop('SIGKILL')), stack.weir.stop('SIGKILL')]);
  stack.upstream.close();
});

async function startStack(env: Readonly<Record<string, string>>, envoys: number): Promise<Stack> {
  const rules = join(await mkdtemp(join(tmpdir(), 'rules-')), 'rules.yaml');
  await writeFile(rules, RULES);
  const upstream = new Upstream();
  const upstreamPort = await upstream.listen();
  const weir = await startWeir({ ...env, STORE_TIMEOUT: '5s' }, { args: ['--rules', rules] });
  const target = `127.0.0.1:${weir.grpcPort}`;
  const started = await Promise.all(
    Array.from({ length: envoys }, () => startPrintedEnvoy({ rules, target, upstreamPort })),
  );
  stack = { weir, upstream, envoys: started };
  return stack;
}

/** Connections of the clients, one for each Envoy. */
const agents = Array.from(
  { length: ENVOYS },
  () => new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY }),
);

/** Sends one request; undefined if it fails. */
function call(place: number, what = 'end', abortAfterMs?: number): Promise<number | undefined> {
  const { port } = stack.envoys[place % stack.envoys.length] as PrintedEnvoy;
  const headers = { 'x-service': 'shop', 'x-what': what };
  const agent = agents[place % ENVOYS] as Agent;
  return new Promise((resolve) => {
    const asked = request({ host: '127.0.0.1', port, headers, agent }, (answer) => {
      answer.resume().once('close', () => resolve(answer.statusCode));
    });
    asked.once('error', () => resolve(undefined)).end();
    if (abortAfterMs !== undefined) setTimeout(() => asked.destroy(), abortAfterMs);
  });
}

interface Served {
  readonly atMs: number;
  readonly tookMs: number;
}

/** Clients that send a request after the other; a refused one waits. Returns the requests served. */
async function closedLoad(clients: number, untilMs: number): Promise<readonly Served[]> {
  const served: Served[] = [];
  const client = async (place: number): Promise<void> => {
    await sleep(Math.random() * 100);
    while (performance.now() < untilMs) {
      const startMs = performance.now();
      const status = await call(place);
      const atMs = performance.now();
      if (status === 200) served.push({ atMs, tookMs: atMs - startMs });
      else await sleep(50 + Math.random() * 100);
    }
  };
  await Promise.all(Array.from({ length: clients }, (_, place) => client(place)));
  return served;
}

test('probe', async () => {
  const { weir } = await startStack({ LOG_LEVEL: 'debug' }, 1);
  const seen: unknown[] = [];
  for (const [what, abort] of [['end'], ['fail'], ['reset'], ['end', 30]] as const) {
    await call(0, what, abort);
    await sleep(400);
    const url = `http://127.0.0.1:${weir.debugPort}/api/v1/counters?domain=demo&descriptor=service%3Dshop`;
    seen.push(what, abort, await (await fetch(url)).json());
  }
  console.log(JSON.stringify(seen, undefined, 1));
  const live = await fetch(`http://127.0.0.1:${stack.weir.debugPort}/stats`)
    .then((r) => r.text())
    .catch(String);
  console.log(live.slice(0, 3000));
}, 100_000);

test('load', async () => {
  await startStack({ BACKEND_TYPE: 'redis', REDIS_URL: redis.url }, ENVOYS);
  const startMs = performance.now();
  const load = closedLoad(4 * WORKERS, startMs + 3 * PHASE_MS);
  for (const workers of [WORKERS, WORKERS / 2, WORKERS]) {
    stack.upstream.workers = workers;
    await sleep(PHASE_MS);
  }
  const served = await load;
  for (let s = 0; s < 3 * PHASE_MS; s += 1000) {
    const own = served.filter(({ atMs }) => atMs >= startMs + s && atMs < startMs + s + 1000);
    console.log(
      s,
      own.length,
      own
        .map(({ tookMs }) => Math.round(tookMs))
        .sort((a, b) => a - b)
        .filter((_, i, all) => [all.length >> 1, Math.floor(all.length * 0.99)].includes(i)),
    );
  }
}, 300_000);
