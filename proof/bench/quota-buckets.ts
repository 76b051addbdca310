import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type ClientDuplexStream, credentials, Metadata } from '@grpc/grpc-js';
import { Redis as Connection } from 'ioredis';
import { streamQuotas } from '../../test/helpers/quota-client.ts';
import { type Redis, startRedis } from '../../test/helpers/redis.ts';
import { startWeir, type Weir } from '../../test/helpers/weir.ts';
import { temporaryFolder, withCleanup } from '../processes/cleanup.ts';
import { readUsage } from '../processes/process-tree.ts';
import { MIB } from '../tables/figures.ts';
import { table } from '../tables/table.ts';

interface ReportedBuckets {
  /** The buckets of all streams together; each stream is that of one proxy. */
  readonly buckets: number;
  readonly streams: number;
  /** The length of the measurement. */
  readonly seconds: number;
  /** Time between two reports of a bucket; default: Envoy 1.40's. */
  readonly reportSeconds?: number;
}

/** A token bucket for each user, like most rules with many buckets. */
const RULES =
  'domain: edge\ndescriptors: [{ key: user, rate_limit: { unit: second, requests_per_unit: 10, algorithm: token_bucket, burst: 20 } }]\n';
/** The number of reports until shares match the demand. */
const SETTLING_REPORTS = 4;
/** The number of different reports that a stream sends in turn: each bucket's demand changes from one to the next. */
const VARIANTS = 4;
const MAX_REQUESTS = 40;
const BYTES = 2 ** 30;

/** A proxy that reports its buckets, and counts the messages that it receives. */
interface Proxy {
  report(): void;
  close(): void;
}

/** The resources that a run has used so far. */
interface Reading {
  readonly atMs: number;
  readonly cpuMs: number;
  readonly redisCpuMs: number;
  readonly reports: number;
  readonly assignments: number;
  readonly messages: number;
}

/** Measures the cost of reports, with shares in memory and in Redis. @returns  a table in Markdown */
export async function measureBuckets(options: ReportedBuckets): Promise<string> {
  const head = [
    ...['shares in', 'buckets', 'streams', 'bucket reports/s', 'assignments/s', 'messages sent/s'],
    ...['CPU of Weir', 'CPU of Redis', 'MiB'],
  ];
  const rows = [await measureIn('memory', options), await measureIn('Redis', options)];
  return `${table(head, 1, rows)}\n\nCPU as a share of one core; MiB resident at the end.`;
}

const measureIn = (store: 'memory' | 'Redis', options: ReportedBuckets): Promise<readonly string[]> =>
  withCleanup(async (onEnd) => {
    const path = join(temporaryFolder('quotas', onEnd), 'rules.yaml');
    writeFileSync(path, RULES);
    const redis = store === 'Redis' ? await startRedis() : undefined;
    if (redis) onEnd(redis.stop);
    const weir = await startWeir({
      RLQS: 'true',
      RULES_PATH: path,
      USE_STATSD: 'false',
      RLQS_MAX_BYTES: String(BYTES),
      CALLER_MEMORY_BYTES: String(BYTES),
      ...(redis && { BACKEND_TYPE: 'redis', REDIS_URL: redis.url }),
    });
    onEnd(weir.stop);
    return [store, ...(await measure(weir, redis, options))];
  });

async function measure(
  weir: Weir,
  redis: Redis | undefined,
  { buckets, streams, seconds, reportSeconds = 5 }: ReportedBuckets,
): Promise<readonly string[]> {
  const connection = redis && new Connection(redis.port, '127.0.0.1');
  const received = { messages: 0 };
  const proxies = Array.from({ length: streams }, (_, at) => {
    const [first, last] = [at, at + 1].map((edge) => Math.floor((edge * buckets) / streams));
    return openProxy(weir, { name: `proxy-${at}`, first: first ?? 0, end: last ?? 0, reportSeconds }, received);
  });
  // staggered, like proxies that were not started together
  const timers = proxies.map((proxy, at) => {
    const begin = (): void => {
      proxy.report();
      timers[at] = setInterval(proxy.report, reportSeconds * 1_000);
    };
    return setTimeout(begin, (at / streams) * reportSeconds * 1_000);
  });
  try {
    await sleep(SETTLING_REPORTS * reportSeconds * 1_000);
    const before = await read(weir, connection, received.messages);
    await sleep(seconds * 1_000);
    const after = await read(weir, connection, received.messages);
    const elapsedMs = after.atMs - before.atMs;
    const rate = (what: keyof Reading): number => ((after[what] - before[what]) / elapsedMs) * 1_000;
    const share = (what: keyof Reading): string => `${((100 * (after[what] - before[what])) / elapsedMs).toFixed(1)} %`;
    // a report is a message: each has the buckets of one stream
    const bucketReports = (rate('reports') * buckets) / streams;
    return [
      ...[buckets, streams].map(String),
      ...[bucketReports, rate('assignments'), rate('messages')].map((perSecond) => perSecond.toFixed(0)),
      share('cpuMs'),
      connection ? share('redisCpuMs') : '',
      (readUsage(weir.pid).memoryBytes / MIB).toFixed(0),
    ];
  } finally {
    for (const timer of timers) clearTimeout(timer);
    for (const proxy of proxies) proxy.close();
    connection?.disconnect();
  }
}

interface ReportingProxy {
  readonly name: string;
  /** The first user, and the one after the last. */
  readonly first: number;
  readonly end: number;
  readonly reportSeconds: number;
}

function openProxy({ grpcPort }: Weir, reporting: ReportingProxy, received: { messages: number }): Proxy {
  const { name } = reporting;
  const client = new Client(`127.0.0.1:${grpcPort}`, credentials.createInsecure(), {
    'grpc.use_local_subchannel_pool': 1,
  });
  const metadata = new Metadata();
  metadata.set('x-weir-proxy', name);
  const asItIs = (bytes: Buffer): Buffer => bytes;
  const stream: ClientDuplexStream<Buffer, Buffer> = client.makeBidiStreamRequest(
    streamQuotas.path,
    asItIs,
    asItIs,
    metadata,
  );
  stream.on('data', () => received.messages++);
  stream.on('error', (error: Error) => {
    if (!isClosed) console.error(`${name}: ${error.message}`);
  });
  const variants = Array.from({ length: VARIANTS }, () => encodeReport(reporting));
  let isClosed = false;
  let sent = 0;
  return {
    report: () => void stream.write(variants[sent++ % VARIANTS] ?? Buffer.alloc(0)),
    close() {
      isClosed = true;
      stream.cancel();
      client.close();
    },
  };
}

const encodeReport = ({ first, end, reportSeconds }: ReportingProxy): Buffer =>
  streamQuotas.requestSerialize({
    domain: 'edge',
    bucket_quota_usages: Array.from({ length: end - first }, (_, at) => {
      const requests = 1 + Math.floor(Math.random() * MAX_REQUESTS);
      return {
        bucket_id: { bucket: { user: `user-${first + at}` } },
        time_elapsed: { seconds: reportSeconds },
        num_requests_allowed: requests,
        num_requests_denied: 0,
      };
    }),
  });

async function read(weir: Weir, connection: Connection | undefined, messages: number): Promise<Reading> {
  const page = await (await fetch(`http://127.0.0.1:${weir.debugPort}/metrics`)).text();
  const metric = (name: string): number => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(page)?.[1]);
  const ofRedis = (await connection?.info('cpu')) ?? '';
  const seconds = [...ofRedis.matchAll(/^used_cpu_(?:sys|user):(\S+)/gm)].map(([, written]) => Number(written));
  return {
    atMs: performance.now(),
    cpuMs: readUsage(weir.pid).cpuMs,
    redisCpuMs: seconds.reduce((sum, one) => sum + one, 0) * 1_000,
    reports: metric('weir_rlqs_reports_total'),
    assignments: metric('weir_rlqs_assignments_total'),
    messages,
  };
}
