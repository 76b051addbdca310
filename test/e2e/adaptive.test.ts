import { once } from 'node:events';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { Agent, createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type PrintedEnvoy, startPrintedEnvoy } from '../helpers/printed-envoy.ts';
import { QueueingUpstream } from '../helpers/queueing-upstream.ts';
import { until } from '../helpers/until.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

const ENVOYS = 3;
const WORK_MS = 250;

const RULES = `
domain: demo
descriptors:
  - key: service
    descriptors:
      - key: request_id
        not_counted: hold
        rate_limit: { algorithm: in_flight, ttl: 30s, adapt: {} }
`;

/** A server that takes its time, and answers as `x-what` says. */
class Upstream {
  readonly #server: Server = createServer(async (asked, answer) => {
    await sleep(WORK_MS);
    const what = asked.headers['x-what'];
    if (what === 'reset') answer.destroy();
    else answer.writeHead(what === 'fail' ? 500 : 200).end();
  });

  async listen(): Promise<number> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return (this.#server.address() as AddressInfo).port; // a TCP server
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

interface Stack {
  readonly weir: Weir;
  readonly envoys: readonly PrintedEnvoy[];
  readonly upstream: Pick<Upstream, 'listen' | 'close'>;
}

let stack: Stack;
afterEach(async () => {
  await Promise.all([...stack.envoys.map(({ stop }) => stop('SIGKILL')), stack.weir.stop('SIGKILL')]);
  stack.upstream.close();
});

async function startStack(upstream: Stack['upstream']): Promise<Stack> {
  const rules = join(await mkdtemp(join(tmpdir(), 'rules-')), 'rules.yaml');
  await writeFile(rules, RULES);
  const upstreamPort = await upstream.listen();
  const weir = await startWeir({ STORE_TIMEOUT: '5s' }, { args: ['--rules', rules] });
  const target = `127.0.0.1:${weir.grpcPort}`;
  const started = await Promise.all(
    Array.from({ length: ENVOYS }, () => startPrintedEnvoy({ rules, target, upstreamPort })),
  );
  stack = { weir, upstream, envoys: started };
  return stack;
}

/** Sends one request on a new connection; undefined: it was aborted or reset. */
function call(place: number, what = 'end', abortAfterMs?: number): Promise<number | undefined> {
  const { port } = stack.envoys[place % stack.envoys.length] as PrintedEnvoy; // there is at least one
  const headers = { 'x-service': 'shop', 'x-what': what };
  return new Promise((resolve) => {
    const asked = request({ host: '127.0.0.1', port, headers, agent: new Agent() }, (answer) => {
      answer.resume().once('close', () => resolve(answer.statusCode));
    });
    asked.once('error', () => resolve(undefined)).end();
    if (abortAfterMs !== undefined) setTimeout(() => asked.destroy(), abortAfterMs);
  });
}

test('Envoy reports the statuses of responses, and frees the slots of requests without one', async () => {
  const { weir } = await startStack(new Upstream());
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
  let isOn = true;
  const clients = Array.from({ length: 4 * workers }, async (_, place) => {
    while (isOn) if ((await call(place)) !== 200) await sleep(100 * Math.random());
  });
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
  isOn = false;
  await Promise.all(clients);
}, 180_000);

async function explained({ debugPort }: Weir): Promise<string> {
  const entries = [
    { key: 'service', value: 'shop' },
    { key: 'request_id', value: 'mine' },
  ];
  const body = JSON.stringify({ domain: 'demo', descriptors: [{ entries }] });
  const answer = await fetch(`http://127.0.0.1:${debugPort}/api/v1/explain`, { method: 'POST', body });
  return await answer.text();
}
