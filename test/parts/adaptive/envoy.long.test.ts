import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type PrintedEnvoy, startPrintedEnvoy } from '../../helpers/printed-envoy.ts';
import { QueueingUpstream } from '../../helpers/queueing-upstream.ts';
import { startWatched } from '../../helpers/redis-topologies.ts';
import { until } from '../../helpers/until.ts';
import { requestStatus, Upstream } from '../../helpers/upstream.ts';
import { asLocal, startWeir, type Weir } from '../../helpers/weir.ts';

const ENVOYS = 3;
const WORK_MS = 250;

const RULES = `
domain: demo
descriptors:
  - key: service
    descriptors:
      - key: request_id
        not_counted: hold
        rate_limit: { algorithm: in_flight, ttl: 5s, adapt: {} }
`;

/** A server that takes its time, and answers as `x-what` says. */
const slowUpstream = () =>
  new Upstream(async (asked, answer) => {
    await sleep(WORK_MS);
    const what = asked.headers['x-what'];
    if (what === 'reset') answer.destroy();
    else answer.writeHead(what === 'fail' ? 500 : 200).end();
  });

interface Stack {
  weir: Weir;
  readonly envoys: PrintedEnvoy[];
  readonly upstream: Upstream;
  /** Starts one more process like the first ones. */
  readonly startEnvoy: () => Promise<PrintedEnvoy>;
  readonly startWeir: (ports: Readonly<Record<string, string>>) => Promise<Weir>;
}

let stack: Stack;
const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function startStack(upstream: Upstream, env: Readonly<Record<string, string>> = {}): Promise<Stack> {
  const rules = join(await mkdtemp(join(tmpdir(), 'rules-')), 'rules.yaml');
  await writeFile(rules, RULES);
  const upstreamPort = await upstream.listen();
  const startService: Stack['startWeir'] = (ports) =>
    startWeir({ STORE_TIMEOUT: '5s', ...env, ...ports }, { args: ['--rules', rules] });
  const weir = await startService({});
  const target = `127.0.0.1:${weir.grpcPort}`;
  const startEnvoy: Stack['startEnvoy'] = () => startPrintedEnvoy({ rules, target, upstreamPort });
  const envoys = await Promise.all(Array.from({ length: ENVOYS }, startEnvoy));
  stack = { weir, upstream, envoys, startEnvoy, startWeir: startService };
  closing.push(async () => {
    await Promise.all([...stack.envoys.map(({ stop }) => stop('SIGKILL')), stack.weir.stop('SIGKILL')]);
    upstream.close();
  });
  return stack;
}

/** Clients that each send a request after the other, until they are stopped. */
function startClients(count: number) {
  let [isOn, served] = [true, 0];
  const clients = Array.from({ length: count }, async (_, place) => {
    while (isOn)
      if ((await call(place)) === 200) served++;
      else await sleep(100 * Math.random());
  });
  const stop = async (): Promise<void> => {
    isOn = false;
    await Promise.all(clients);
  };
  closing.push(stop);
  return { served: () => served, stop };
}

/** Sends one request to one of the Envoys. */
function call(place: number, what = 'end', abortAfterMs?: number): Promise<number | undefined> {
  const { port } = stack.envoys[place % stack.envoys.length] as PrintedEnvoy; // there is at least one
  return requestStatus(port, { 'x-service': 'shop', 'x-what': what }, abortAfterMs);
}

test('Envoy reports the statuses of responses, and frees the slots of requests without one', async () => {
  const { weir } = await startStack(slowUpstream());
  for (let place = 0; place < 12; place++) await call(place, 'end');
  for (let place = 0; place < 12; place++) await call(place, ['fail', 'reset'][place % 2]);
  for (let place = 0; place < 6; place++) await call(place, 'end', WORK_MS / 2);
  await until('the failures have lowered the limit, and no slot is held', async () => {
    if (/0 \+ 1 = 1 ≤ 4: (lowered|kept), as requests fail/.test(await explained(weir))) return true;
    await call(0, 'fail');
    return false;
  });
}, 120_000);

test('the limit follows the capacity of an upstream that is halved and comes back', async () => {
  const [workers, workMs] = [12, 150];
  const upstream = new QueueingUpstream(workers, () => (0.8 + 0.4 * Math.random()) * workMs);
  const { weir } = await startStack(upstream);
  startClients(4 * workers);
  const limit = async (): Promise<number> => Number(/[≤>] (\d+):/.exec(await explained(weir))?.[1]);
  const isMeasured = async (): Promise<boolean> => /did not queue|requests queue/.test(await explained(weir));
  await until('the limit has found the capacity', async () => (await limit()) >= workers && (await isMeasured()));
  for (const [part, isFound] of [
    [0.5, (slots: number) => slots >= workers / 2 && slots < 1.5 * workers],
    [1, (slots: number) => slots >= 1.2 * workers],
  ] as const) {
    upstream.workers = part * workers;
    await until(
      `the limit is that of ${part} of the workers`,
      async () => isFound(await limit()) && (await isMeasured()),
    );
  }
}, 180_000);

test('the limit survives the end of an Envoy, of Weir, and of the master of Redis', async () => {
  const watched = await startWatched();
  closing.push(() => watched.stop());
  const [workers, workMs] = [12, 150];
  const upstream = new QueueingUpstream(workers, () => (0.8 + 0.4 * Math.random()) * workMs);
  const sentinel = `${watched.name},127.0.0.1:${watched.sentinelPort}`;
  const { envoys, weir } = await startStack(upstream, {
    BACKEND_TYPE: 'redis',
    REDIS_TYPE: 'SENTINEL',
    REDIS_URL: sentinel,
  });
  const clients = startClients(4 * workers);
  const isUsed = async (): Promise<boolean> => Number(/(\d+) \+ 1 = /.exec(await explained(stack.weir))?.[1]) > 0;
  const recovers = async (what: string): Promise<void> => {
    const before = clients.served();
    const isServed = (): boolean => clients.served() > before + 10 * workers;
    await until(`the limit is used after ${what}`, async () => isServed() && (await isUsed()));
  };
  await recovers('the start');
  await envoys[0]?.stop('SIGKILL'); // its slots expire
  envoys[0] = await stack.startEnvoy();
  await recovers('the end of an Envoy');
  await weir.stop('SIGKILL'); // Envoy admits everything meanwhile
  const [GRPC_PORT, DEBUG_PORT] = [String(weir.grpcPort), String(weir.debugPort)];
  stack.weir = await stack.startWeir({ GRPC_PORT, DEBUG_PORT });
  await recovers('the end of Weir');
  await watched.master.kill();
  await recovers('the end of the master of Redis');
  await clients.stop();
  await until('no slot is held', async () => (await explained(stack.weir)).includes('0 + 1 = 1 ≤'));
}, 180_000);

async function explained({ debugPort }: Weir): Promise<string> {
  const entries = [
    { key: 'service', value: 'shop' },
    { key: 'request_id', value: 'mine' },
  ];
  const body = JSON.stringify({ domain: 'demo', descriptors: [{ entries }] });
  const answer = await fetch(`http://127.0.0.1:${debugPort}/api/v1/explain`, {
    method: 'POST',
    body,
    headers: asLocal({ debugPort }),
  });
  return await answer.text();
}
