import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { accepts, freePort, start } from '../../test/helpers/process.ts';
import { startWeir } from '../../test/helpers/weir.ts';
import { type BenchRule, DOMAIN, type Shape } from './shapes.ts';

/** A service to measure: Weir on one of its transports, or a peer. */
export interface Subject {
  readonly name: string;
  /** The share of the shape's connections that it is called on. Default: all. */
  readonly share?: number;
  /** Whether the service supports the shape. */
  serves(shape: Shape): boolean;
  start(shape: Shape, site: Site): Promise<Service>;
}

/** The resources of a service. */
export interface Site {
  /** The service's own directory. */
  readonly folder: string;
  /** host:port of the service's own Redis; undefined if counters are in memory. */
  readonly redisUrl: string | undefined;
}

/** A running service. */
export interface Service {
  readonly pid: number;
  /** The gRPC port, on 127.0.0.1. */
  readonly port: number;
  stop(): Promise<unknown>;
}

/** Above this rate `grpc-js` refuses calls. */
const GRPC_JS_CALLS_PER_SECOND = 10_000;

/**
 * @param transport  a value of GRPC_TRANSPORT
 * @param main       the program; default: the one that is built
 */
export const weirOn = (transport: string, main?: string): Subject => ({
  name: `Weir (${transport})`,
  serves: ({ pace }) => transport === 'h2' || typeof pace !== 'number' || pace <= GRPC_JS_CALLS_PER_SECOND,
  start: (shape, site) => weirService(transport, shape, site, { main }),
});

interface WeirVariant {
  /** The program. Default: the one that is built. */
  readonly main?: string | undefined;
  readonly hasCandidate?: boolean;
  readonly workers?: number;
}

async function weirService(
  transport: string,
  { store, rules, denyCacheBytes, leased }: Shape,
  { folder, redisUrl }: Site,
  { main, hasCandidate = false, workers }: WeirVariant = {},
) {
  const path = written(folder, 'rules.yaml', envoyRules(rules));
  const weir = await startWeir(
    {
      GRPC_TRANSPORT: transport,
      BACKEND_TYPE: store,
      ...(redisUrl !== undefined && { REDIS_URL: redisUrl }),
      RULES_PATH: path,
      ...(hasCandidate && { CANDIDATE_RULES_PATH: path }),
      ...(workers !== undefined && { WORKERS: String(workers) }),
      ...(leased && { CONSISTENCY: 'leased' }),
      LOCAL_CACHE_SIZE_IN_BYTES: String(denyCacheBytes),
      STORE_TIMEOUT: '10s', // on a machine busy with all services, calls wait as long as at the other ones
    },
    main === undefined ? {} : { main },
  );
  return { pid: weir.pid, port: weir.grpcPort, debugPort: weir.debugPort, stop: weir.stop };
}

/** Weir on one of its transports, while a console reads its event stream. */
export const weirWithConsole = (transport: string): Subject => {
  const subject = weirOn(transport);
  return {
    ...subject,
    name: `${subject.name} with an open console`,
    async start(shape, site) {
      const { debugPort, ...service } = await weirService(transport, shape, site);
      const reader = new AbortController();
      const stream = await fetch(`http://127.0.0.1:${debugPort}/api/v1/events`, { signal: reader.signal });
      void stream.body?.pipeTo(new WritableStream()).catch(() => {}); // rejects when it is aborted
      return {
        ...service,
        stop() {
          reader.abort();
          return service.stop();
        },
      };
    },
  };
};

/** Weir on one of its transports, with a candidate that has the same rules. */
export const weirWithCandidate = (transport: string): Subject => {
  const subject = weirOn(transport);
  return {
    ...subject,
    name: `${subject.name} with a candidate`,
    start: (shape, site) => weirService(transport, shape, site, { hasCandidate: true }),
  };
};

/** Weir on one of its transports, with worker processes. */
export const weirWithWorkers = (transport: string, workers: number): Subject => {
  const subject = weirOn(transport);
  return {
    ...subject,
    name: `${subject.name}, WORKERS=${workers}`,
    serves: ({ store }) => store === 'redis',
    start: (shape, site) => weirService(transport, shape, site, { workers }),
  };
};

/** One process, called on as many connections as each of several workers. */
export const weirAsOneWorker = (transport: string, workers: number): Subject => {
  const subject = weirOn(transport);
  return { ...subject, name: `${subject.name}, 1/${workers} of the connections`, share: 1 / workers };
};

/** envoyproxy/ratelimit, without statistics, its cheapest configuration. */
export const reference = (binary: string): Subject => ({
  name: 'envoyproxy/ratelimit',
  serves: ({ store, rules }) => store === 'redis' && rules.every(({ algorithm }) => algorithm === 'fixed_window'),
  async start({ rules, denyCacheBytes }, { folder, redisUrl }) {
    const port = await freePort();
    const env = await referenceEnvironment({ rules, denyCacheBytes }, { folder, redisUrl }, port);
    const service = await start(binary, [], { name: 'envoyproxy/ratelimit', env });
    await service.waitFor(() => accepts(port));
    return { pid: service.pid, port, stop: service.stop };
  },
});

/** Writes its rules into the folder. @returns  its whole environment */
export async function referenceEnvironment(
  { rules, denyCacheBytes }: Pick<Shape, 'rules' | 'denyCacheBytes'>,
  { folder, redisUrl = '' }: Site,
  grpcPort: number,
): Promise<Readonly<Record<string, string>>> {
  mkdirSync(join(folder, 'config'));
  written(folder, 'config/rules.yaml', envoyRules(rules));
  return {
    ...(await referenceSettings({ folder, redisUrl, grpcPort, httpPort: await freePort() })),
    LOCAL_CACHE_SIZE_IN_BYTES: String(denyCacheBytes),
    DISABLE_STATS: 'true',
  };
}

interface ReferenceOptions {
  /** The rules are in its `config` folder. */
  readonly folder: string;
  readonly redisUrl: string;
  readonly grpcPort: number;
  readonly httpPort: number;
}

/** Settings of envoyproxy/ratelimit on loopback, with counters in Redis. */
export const referenceSettings = async ({ folder, redisUrl, grpcPort, httpPort }: ReferenceOptions) => ({
  HOST: '127.0.0.1',
  GRPC_HOST: '127.0.0.1',
  DEBUG_HOST: '127.0.0.1',
  GRPC_PORT: String(grpcPort),
  PORT: String(httpPort),
  DEBUG_PORT: String(await freePort()),
  RUNTIME_ROOT: folder,
  RUNTIME_SUBDIRECTORY: '.',
  RUNTIME_WATCH_ROOT: 'false',
  BACKEND_TYPE: 'redis',
  REDIS_SOCKET_TYPE: 'tcp',
  REDIS_URL: redisUrl,
  LOG_LEVEL: 'error',
});

/** A Node server that answers fixed bytes after one PING to Redis: the floor for any service in Node. */
export const nodeFloor: Subject = {
  name: 'Node, fixed bytes',
  serves: ({ code, rules }) => code === 'OK' && rules.every(({ algorithm }) => algorithm === 'fixed_window'),
  start: (_shape, site) => floorService(site, {}),
};

/** The same after one INCRBY for each call: the floor for any service in Node that counts in Redis. */
export const countingFloor: Subject = {
  name: 'Node, fixed bytes, one INCRBY',
  serves: ({ pace, leased }) => typeof pace === 'number' && !leased,
  start: (_shape, site) => floorService(site, { CANNED_COUNTS: 'true' }),
};

async function floorService({ redisUrl }: Site, how: Readonly<Record<string, string>>): Promise<Service> {
  const port = await freePort();
  const program = fileURLToPath(new URL('./at-rest/canned-process.ts', import.meta.url));
  const env = {
    ...process.env,
    ...how,
    CANNED_PORT: String(port),
    ...(redisUrl !== undefined && { CANNED_REDIS_PORT: redisUrl.slice(redisUrl.lastIndexOf(':') + 1) }),
  };
  const server = await start(process.execPath, ['--import', 'tsx', program], { name: 'the floor', env });
  await server.waitFor(() => accepts(port));
  return { pid: server.pid, port, stop: server.stop };
}

/** Limitador, counting in memory. */
export const limitador = (binary: string): Subject => ({
  name: 'Limitador',
  serves: ({ store, rules }) => store === 'memory' && rules.every(({ algorithm }) => algorithm === 'fixed_window'),
  async start({ rules }, { folder }) {
    const port = await freePort();
    const service = await start(binary, await limitadorArguments(rules, folder, port), { name: 'Limitador' });
    await service.waitFor(() => accepts(port));
    return { pid: service.pid, port, stop: service.stop };
  },
});

/** Writes its limits into the folder. */
export async function limitadorArguments(
  rules: readonly BenchRule[],
  folder: string,
  grpcPort: number,
): Promise<readonly string[]> {
  const ports = ['--rls-ip', '127.0.0.1', '--rls-port', String(grpcPort)];
  const http = ['--http-ip', '127.0.0.1', '--http-port', String(await freePort())];
  return [...ports, ...http, written(folder, 'limits.yaml', limitadorLimits(rules)), 'memory'];
}

const BUCKETS = 12;
const unitSeconds = { SECOND: 1, HOUR: 3_600, DAY: 86_400 } as const;

/** Rules for Weir and envoyproxy/ratelimit; the latter has no algorithms, so its rules name none. */
export const envoyRules = (rules: readonly BenchRule[]): string =>
  JSON.stringify({
    domain: DOMAIN,
    descriptors: rules.map(({ key, requestsPerUnit, unit, algorithm, by }) => ({
      key,
      rate_limit: {
        unit: unit.toLowerCase(),
        requests_per_unit: requestsPerUnit,
        ...(by === undefined ? algorithm !== 'fixed_window' && { algorithm } : { share: { by } }),
        ...((algorithm === 'token_bucket' || algorithm === 'leaky_bucket') && { burst: requestsPerUnit }),
        ...(algorithm === 'sliding_window_buckets' && { buckets: BUCKETS }),
      },
    })),
  });

/** Limits on the first descriptor of a call. */
const limitadorLimits = (rules: readonly BenchRule[]): string =>
  JSON.stringify(
    rules.map(({ key, requestsPerUnit, unit }) => ({
      namespace: DOMAIN,
      max_value: requestsPerUnit,
      seconds: unitSeconds[unit],
      conditions: [],
      variables: [`descriptors[0].${key}`],
    })),
  );

/** Writes a file. JSON is YAML. @returns its path */
function written(folder: string, name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}
