import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { startRedis } from '../../../test/helpers/redis.ts';
import { startTcpProxy, type TcpProxy } from '../../../test/helpers/tcp-proxy.ts';
import { percent } from '../../tables/figures.ts';
import { tableHead, tableRow } from '../../tables/table.ts';
import type { HttpTally } from '../generator/drive-http.ts';
import { type Generator, startGenerator } from '../generator/generator.ts';
import { type Environment, listeners, type Proxied, startProxied, weirWith } from './proxied.ts';

/** Per user and day; the honest clients stay below it. */
const LIMIT = 100;
const MAX_ABUSE = 2 * LIMIT;
const MIN_HONEST_SHARE = 0.99;
const FLOOD_MS = 10_000;
const OVERLOAD_FACTOR = 10;
/**
 * Enough to keep Envoy's thread busy. With hundreds, a turn of its event loop takes longer than its timeout of 20 ms, so
 * that it gives up calls to any service before it has sent them.
 */
const ABUSER_CONNECTIONS = 50;
const CAPACITY_MS = 3_000;
const ALONE_MS = 3_000;
const HONEST = { clients: 50, requestsPerSecond: 100 };
const ROUND_TRIP_MS = 50;
const STOPPED = { afterMs: 2_000, forMs: 5_000 };

interface Flood {
  readonly name: string;
  readonly store: 'memory' | 'redis' | 'slow redis' | 'stopped redis';
  /** How long Envoy waits for a decision. */
  readonly timeoutMs: number;
  readonly onStoreFailure?: string;
  /** Whether the figures are judged, or only printed. */
  readonly isJudged: boolean;
}

const ENVOY_TIMEOUT_MS = 20;
const floods: readonly Flood[] = [
  { name: 'memory', store: 'memory', timeoutMs: ENVOY_TIMEOUT_MS, isJudged: true },
  { name: 'Redis', store: 'redis', timeoutMs: ENVOY_TIMEOUT_MS, isJudged: true },
  { name: `Redis ${ROUND_TRIP_MS} ms away`, store: 'slow redis', timeoutMs: 250, isJudged: true },
  { name: 'Redis stopped for 5 s', store: 'stopped redis', timeoutMs: ENVOY_TIMEOUT_MS, isJudged: false },
  {
    name: 'Redis stopped for 5 s, on_store_failure: local',
    store: 'stopped redis',
    timeoutMs: ENVOY_TIMEOUT_MS,
    onStoreFailure: 'local',
    isJudged: true,
  },
];

interface Outcome {
  /** Requests a second. */
  readonly capacity: number;
  /** The honest clients before the flood, which show what this machine does in time. */
  readonly alone: HttpTally;
  readonly abuser: HttpTally;
  readonly honest: HttpTally;
}

interface FloodOptions {
  readonly generator: Generator;
  readonly env: Environment;
}

/**
 * Floods the service through an Envoy, and prints how many requests of the abuser passed, and how many of the honest
 * clients were decided in time.
 *
 * @throws  too many or too few
 */
export async function flood(options: FloodOptions): Promise<void> {
  const honestGenerator = startGenerator();
  const problems: string[] = [];
  const sent = ['capacity/s', 'due/s', 'sent/s', `abuser passed, limit ${LIMIT}`, 'of these undecided'];
  const honest = ['honest alone, in time', 'honest, in time', 'p99 ms'];
  console.log(`\n${tableHead(['flood', 'Envoy fails', ...sent, ...honest], 2)}`);
  try {
    for (const one of floods) {
      for (const listener of ['open', 'closed'] as const) {
        console.error(`flood: ${one.name}, Envoy fails ${listener} …`);
        const outcome = await run(one, listener, { ...options, honestGenerator });
        console.log(formatRow(one.name, listener, outcome));
        if (one.isJudged)
          problems.push(...findProblems(outcome).map((text) => `${one.name}, Envoy fails ${listener}: ${text}`));
      }
    }
  } finally {
    honestGenerator.stop();
  }
  if (problems.length > 0) throw new Error(problems.join('\n'));
}

/** A proxy that delays everything. @param to  the port of the server on 127.0.0.1 */
const startSlowProxy = (to: number): Promise<TcpProxy> =>
  startTcpProxy(to, ({ client, server }) => {
    const delay = (into: Socket) => (bytes: Buffer) => void setTimeout(() => into.write(bytes), ROUND_TRIP_MS / 2); // equal delays keep the order
    client.on('data', delay(server));
    server.on('data', delay(client));
  });

async function run(
  { store, timeoutMs, onStoreFailure = 'error' }: Flood,
  listener: keyof typeof listeners,
  { generator, honestGenerator, env }: FloodOptions & { readonly honestGenerator: Generator },
): Promise<Outcome> {
  const redis = store === 'memory' ? undefined : await startRedis();
  const proxy = redis && store === 'slow redis' ? await startSlowProxy(redis.port) : undefined;
  const weir = weirWith({ limit: LIMIT, env, onStoreFailure });
  const proxied = await startProxied(weir, { redisUrl: proxy ? `127.0.0.1:${proxy.port}` : redis?.url, timeoutMs });
  const stopStore = async (): Promise<void> => {
    await sleep(STOPPED.afterMs);
    redis?.pause();
    await sleep(STOPPED.forMs);
    redis?.resume();
  };
  try {
    const capacity = await measureCapacity(proxied, listener, generator);
    const port = proxied.envoy.portOf(listeners[listener]);
    const open = (requestsPerSecond: number, ms: number) =>
      ({ kind: 'open', callsPerSecond: requestsPerSecond, end: { elapsedMs: ms } }) as const;
    const sendHonest = (ms: number): Promise<HttpTally> =>
      honestGenerator.driveHttp({
        port,
        connections: HONEST.clients,
        pace: open(HONEST.requestsPerSecond, ms),
        users: Array.from({ length: HONEST.clients }, (_, at) => `honest-${at}`),
      });
    const alone = await sendHonest(ALONE_MS);
    const [abuser, honest] = await Promise.all([
      generator.driveHttp({
        port,
        connections: ABUSER_CONNECTIONS,
        pace: open(capacity * OVERLOAD_FACTOR, FLOOD_MS),
        users: ['abuser'],
      }),
      sendHonest(FLOOD_MS),
      store === 'stopped redis' && stopStore(),
    ]);
    return { capacity, alone, abuser, honest };
  } finally {
    await proxied.stop();
    await proxy?.close();
    await redis?.stop();
  }
}

/** The requests a second of one user over its limit that Envoy and the service answer. */
async function measureCapacity(
  { envoy }: Proxied,
  listener: keyof typeof listeners,
  generator: Generator,
): Promise<number> {
  const { answers, elapsedMs } = await generator.driveHttp({
    port: envoy.portOf(listeners[listener]),
    connections: ABUSER_CONNECTIONS,
    pace: { kind: 'closed', callsInFlight: 1, end: { elapsedMs: CAPACITY_MS } },
    users: ['capacity'],
  });
  return Math.round((total(answers) / elapsedMs) * 1_000);
}

const total = (answers: HttpTally['answers']): number => Object.values(answers).reduce((sum, count) => sum + count, 0);

const countPassed = ({ answers: { ADMITTED, UNLIMITED } }: HttpTally): number => ADMITTED + UNLIMITED;

/** The share of due requests that the service decided before Envoy's timeout, and admitted, as they are within limits. */
const shareInTime = ({ answers, notSent }: HttpTally): number => answers.ADMITTED / (total(answers) + notSent);

function findProblems({ abuser, alone, honest }: Outcome): readonly string[] {
  const passed = countPassed(abuser);
  const share = shareInTime(honest);
  const shareAlone = percent(shareInTime(alone));
  return [
    ...(passed > MAX_ABUSE ? [`at most ${MAX_ABUSE} requests of the abuser may pass, got ${passed}`] : []),
    ...(share < MIN_HONEST_SHARE
      ? [
          `at least ${percent(MIN_HONEST_SHARE)} of the honest requests must be admitted in time, got ${percent(share)}, and ${shareAlone} without the flood`,
        ]
      : []),
  ];
}

function formatRow(name: string, listener: string, { capacity, alone, abuser, honest }: Outcome): string {
  const cells = [
    name,
    listener,
    capacity,
    capacity * OVERLOAD_FACTOR,
    ((total(abuser.answers) / abuser.elapsedMs) * 1_000).toFixed(0),
    countPassed(abuser),
    abuser.answers.UNLIMITED,
    percent(shareInTime(alone)),
    percent(shareInTime(honest)),
    honest.p99Ms.toFixed(0),
  ];
  return tableRow(cells);
}
