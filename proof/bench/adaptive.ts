import { mkdtemp, writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { type PrintedEnvoy, startPrintedEnvoy } from '../../test/helpers/printed-envoy.ts';
import { QueueingUpstream } from '../../test/helpers/queueing-upstream.ts';
import { startWeir } from '../../test/helpers/weir.ts';
import { parseCount } from '../options.ts';
import { tableHead, tableRow } from '../tables/table.ts';

export const usage = `Usage: npm run proof -- adaptive [--seconds N] [--only TEXT]

Three Envoys before one upstream, half of whose capacity goes away and comes back. Compares an adaptive limit of Weir with
the best of some fixed ones and with Envoy's own adaptive_concurrency filter: what they serve, and how long it takes.
Then critical requests share an adaptive limit with sheddable ones, twelve times as many of which come for a while.

  --seconds N  the length of each of the three phases; default: 30, about 22 minutes in total
  --only TEXT  only rows whose name contains this text
`;

const ENVOYS = 3;
const WORKERS = 12;
const WORK_MS = 100;
const CAPACITY = (WORKERS * 1_000) / WORK_MS;
/** The part of a phase in which a limit may look for the capacity. */
const FINDS_MS = 10_000;
const FIXED = [8, 12, 16, 20, 24];
/** How late an arrival may be; a busy machine sends fewer. */
const LATE_MS = 50;

/** Requests at random times, or clients that wait for their answer, and a moment if they are refused. */
const loads = {
  'open arrivals': { arrivals: 1.5 * CAPACITY },
  clients: { clients: 4 * WORKERS },
} as const;
type Load = { readonly arrivals: number } | { readonly clients: number };

/** Requests per second of each priority; the spike is the second phase. */
const CRITICAL = 0.5 * CAPACITY;
const SHEDDABLE = 0.4 * CAPACITY;
const SPIKE = 12;

/** Envoy's own limit, as in its documentation; it counts for each Envoy. */
const ADAPTIVE_CONCURRENCY = `- name: envoy.filters.http.adaptive_concurrency
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.adaptive_concurrency.v3.AdaptiveConcurrency
                      gradient_controller_config:
                        sample_aggregate_percentile: { value: 90 }
                        concurrency_limit_params: { concurrency_update_interval: 0.1s }
                        min_rtt_calc_params: { jitter: { value: 10 }, interval: 60s, request_count: 50 }
                      enabled: { default_value: true, runtime_key: adaptive_concurrency.enabled }
                  `;

interface Answered {
  readonly atMs: number;
  readonly tookMs: number;
  readonly isServed: boolean;
}

interface Contender {
  readonly name: string;
  /** The limit in the rules; absent: Envoy's own. */
  readonly limit?: string;
}

const rulesOf = (limit: string): string => `domain: demo
descriptors:
  - key: service
    descriptors:
      - key: request_id
        not_counted: hold
        rate_limit: { algorithm: in_flight, ttl: 30s, ${limit} }
`;

const PRIORITIES = `domain: demo
descriptors:
  - key: service
    descriptors:
      - key: class
        not_counted: priority
        descriptors:
          - key: request_id
            not_counted: hold
            rate_limit: { algorithm: in_flight, ttl: 30s, adapt: {} }
`;

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: { seconds: { type: 'string', default: '30' }, only: { type: 'string', default: '' } },
  });
  const phaseMs = parseCount('--seconds', values.seconds, 600) * 1_000;
  if (phaseMs <= FINDS_MS) throw new Error(`--seconds must be above ${FINDS_MS / 1_000}, got '${values.seconds}'`);
  const contenders: readonly Contender[] = [
    { name: 'Weir, adaptive', limit: 'adapt: {}' },
    { name: "Envoy's adaptive_concurrency" },
    ...FIXED.map((slots) => ({ name: `Weir, ${slots} slots`, limit: `requests_per_unit: ${slots}` })),
  ].filter(({ name }) => name.includes(values.only));
  if (contenders.length > 0) {
    console.log(`The upstream serves ${CAPACITY} requests per second, each of which takes ${0.8 * WORK_MS} to ${1.2 * WORK_MS} ms.
Served, in percent of the capacity: of each phase from ${FINDS_MS / 1_000} s on, and of all three.\n`);
    const columns = ['limit', 'load', 'full', 'half', 'full again', 'whole run', 'p99 of each phase, ms'];
    console.log(tableHead(columns, 2));
  }
  for (const contender of contenders)
    for (const [name, load] of Object.entries(loads))
      console.log(tableRow(await measureCapacity(contender, name, load, phaseMs)));
  if ('Weir, priorities'.includes(values.only)) await measureSpike(phaseMs);
}

async function measureCapacity(
  { name, limit }: Contender,
  loadName: string,
  load: Load,
  phaseMs: number,
): Promise<(string | number)[]> {
  const stack = await startStack(rulesOf(limit ?? 'requests_per_unit: 1'), limit === undefined);
  const traffic = startTraffic(stack.envoys, load, limit === undefined ? {} : { 'x-service': 'shop' });
  const beganMs = performance.now();
  for (const workers of [WORKERS, WORKERS / 2, WORKERS]) {
    stack.upstream.workers = workers;
    await sleep(phaseMs);
  }
  const served = (await traffic.stop()).filter(({ isServed }) => isServed);
  await stack.stop();
  const between = (fromMs: number, toMs: number): Answered[] =>
    served.filter(({ atMs }) => atMs >= beganMs + fromMs && atMs < beganMs + toMs);
  const phases = [1, 0.5, 1].map((part, at) => {
    const ended = between(at * phaseMs + FINDS_MS, (at + 1) * phaseMs);
    return { part: ended.length / ((CAPACITY * part * (phaseMs - FINDS_MS)) / 1_000), p99: p99Ms(ended) };
  });
  const whole = between(0, 3 * phaseMs).length / ((CAPACITY * 2.5 * phaseMs) / 1_000);
  return [
    name,
    loadName,
    ...[...phases.map(({ part }) => part), whole].map((part) => `${Math.round(100 * part)} %`),
    phases.map(({ p99 }) => Math.round(p99)).join(', '),
  ];
}

/** Prints what is served of critical and of sheddable requests before, during and after a spike of the latter. */
async function measureSpike(phaseMs: number): Promise<void> {
  const stack = await startStack(PRIORITIES, false);
  const start = (priority: string, arrivals: number): Traffic =>
    startTraffic(stack.envoys, { arrivals }, { 'x-service': 'shop', 'x-class': priority });
  const [critical, sheddable] = [start('critical', CRITICAL), start('sheddable', SHEDDABLE)];
  const beganMs = performance.now();
  await sleep(phaseMs);
  const spike = start('sheddable', (SPIKE - 1) * SHEDDABLE);
  await sleep(phaseMs);
  const shed = await spike.stop();
  await sleep(phaseMs);
  const answered = { critical: await critical.stop(), sheddable: [...(await sheddable.stop()), ...shed] };
  await stack.stop();
  console.log(`\n${CRITICAL} critical and ${SHEDDABLE} sheddable requests per second before the same upstream; in the second phase ${SPIKE} times
as many sheddable ones. Served of those that came, and the p99 of their time; of the first phase from ${FINDS_MS / 1_000} s on.\n`);
  console.log(tableHead(['Weir, priorities', 'before', 'spike', 'after', 'p99 of each phase, ms'], 1));
  for (const [name, all] of Object.entries(answered)) {
    const phases = [0, 1, 2].map((at) => {
      const [fromMs, toMs] = [at === 0 ? FINDS_MS : at * phaseMs, (at + 1) * phaseMs];
      const came = all.filter(({ atMs }) => atMs >= beganMs + fromMs && atMs < beganMs + toMs);
      const served = came.filter(({ isServed }) => isServed);
      return { part: served.length / came.length, p99: p99Ms(served) };
    });
    console.log(
      tableRow([
        name,
        ...phases.map(({ part }) => `${(100 * part).toFixed(1)} %`),
        phases.map(({ p99 }) => Math.round(p99)).join(', '),
      ]),
    );
  }
}

interface Stack {
  readonly upstream: QueueingUpstream;
  readonly envoys: readonly PrintedEnvoy[];
  stop(): Promise<void>;
}

/** @param hasFilter  whether each Envoy limits by its own adaptive_concurrency */
async function startStack(rules: string, hasFilter: boolean): Promise<Stack> {
  const upstream = new QueueingUpstream(WORKERS, () => (0.8 + 0.4 * Math.random()) * WORK_MS);
  const upstreamPort = await upstream.listen();
  const path = join(await mkdtemp(join(tmpdir(), 'rules-')), 'rules.yaml');
  await writeFile(path, rules);
  const weir = await startWeir({}, { args: ['--rules', path] });
  const target = `127.0.0.1:${weir.grpcPort}`;
  const edit = (config: string): string =>
    hasFilter
      ? config.replace('- name: envoy.filters.http.router', `${ADAPTIVE_CONCURRENCY}- name: envoy.filters.http.router`)
      : config;
  const options = { rules: path, target, upstreamPort, edit };
  const envoys = await Promise.all(Array.from({ length: ENVOYS }, () => startPrintedEnvoy(options)));
  return {
    upstream,
    envoys,
    async stop() {
      await Promise.all([...envoys.map(({ stop }) => stop('SIGKILL')), weir.stop('SIGKILL')]);
      upstream.close();
    },
  };
}

function p99Ms(served: readonly Answered[]): number {
  const times = served.map(({ tookMs }) => tookMs).sort((one, other) => one - other);
  return times[Math.floor(times.length * 0.99)] ?? 0;
}

interface Traffic {
  /** @returns all requests that have ended */
  stop(): Promise<readonly Answered[]>;
}

/** Sends requests until it is stopped. */
function startTraffic(envoys: readonly PrintedEnvoy[], load: Load, headers: Record<string, string>): Traffic {
  const agent = new Agent({ keepAlive: true });
  const answered: Answered[] = [];
  let [place, isOn] = [0, true];
  const send = (): Promise<boolean> => {
    const { port } = envoys[place++ % envoys.length] as PrintedEnvoy; // there is at least one
    const startMs = performance.now();
    return new Promise((resolve) => {
      const end = (status?: number): void => {
        const atMs = performance.now();
        answered.push({ atMs, tookMs: atMs - startMs, isServed: status === 200 });
        resolve(status === 200);
      };
      const asked = request({ host: '127.0.0.1', port, headers, agent }, (answer) => {
        answer.resume().once('close', () => end(answer.statusCode));
      });
      asked.once('error', () => end()).end();
    });
  };
  const arrive = async (perSecond: number): Promise<void> => {
    for (let dueMs = performance.now(); isOn; dueMs += (-Math.log(1 - Math.random()) * 1_000) / perSecond) {
      dueMs = Math.max(dueMs, performance.now() - LATE_MS);
      await sleep(Math.max(dueMs - performance.now(), 0)); // lets the upstream, in this process, answer
      void send();
    }
  };
  const call = async (): Promise<void> => {
    while (isOn) if (!(await send())) await sleep(50 + 100 * Math.random());
  };
  const running = 'arrivals' in load ? [arrive(load.arrivals)] : Array.from({ length: load.clients }, () => call());
  const stop: Traffic['stop'] = async () => {
    isOn = false;
    await Promise.all(running);
    agent.destroy();
    return answered;
  };
  return { stop };
}
