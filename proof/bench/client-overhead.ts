import { parseArgs } from 'node:util';
import { credentials, Client as GrpcClient } from '@grpc/grpc-js';
import { Ratelimit } from '@upstash/ratelimit';
import { Redis } from 'ioredis';
import { RateLimiterRedis } from 'rate-limiter-flexible';
import { type Client, createClient } from 'weir-client';
import { createEngine } from 'weir-rls/engine';
import { shouldRateLimit } from '../../src/edge/rls/proto.ts';
import { startRedis } from '../../test/helpers/redis.ts';
import { startWeir } from '../../test/helpers/weir.ts';
import { median } from '../tables/figures.ts';
import { table } from '../tables/table.ts';
import { startTable } from './client-start.ts';

export const usage = `Usage: npm run proof -- client-overhead

Measures the CPU time of a call of weir-client, compared with the same call by @grpc/grpc-js and @grpc/proto-loader
alone: calls one after another, and 32 calls in each turn of the event loop; also with an engine in this process, and by
the libraries rate-limiter-flexible and @upstash/ratelimit, the latter with ioredis. Then the time, CPU time and memory
of a new process until its first decision. Takes about two minutes.
`;

const ROUNDS = 7;
const CALLS = 1_920;
const IN_A_TURN = 32;
const TIMEOUT_MS = 30_000;

/** Makes one call for a user. */
type Call = (user: string) => Promise<unknown>;

interface Row {
  readonly name: string;
  readonly inATurn: number;
  readonly call: Call;
  readonly us: number[];
}

export async function run(args: readonly string[]): Promise<void> {
  parseArgs({ args });
  const weir = await startWeir({ RULES_PATH: 'config/rules.yaml', WORKERS: '1' });
  const redis = await startRedis();
  const ioredis = new Redis(redis.port, '127.0.0.1');
  const target = `127.0.0.1:${weir.grpcPort}`;
  const rules = { files: ['config/rules.yaml'] };
  const raw = new GrpcClient(target, credentials.createInsecure());
  const clients = {
    plain: createClient({ target, timeoutMs: TIMEOUT_MS, batch: false, refusals: false }),
    batching: createClient({ target, timeoutMs: TIMEOUT_MS, refusals: false }),
    http: createClient({ target: `http://127.0.0.1:${weir.httpPort}`, timeoutMs: TIMEOUT_MS, refusals: false }),
    memory: createClient({ engine: await createEngine({ rules }), timeoutMs: TIMEOUT_MS }),
    redis: createClient({
      engine: await createEngine({ rules, store: { redis: `redis://${redis.url}` } }),
      timeoutMs: TIMEOUT_MS,
    }),
  };
  const rows = [1, IN_A_TURN].flatMap((inATurn): Row[] => [
    { name: 'grpc-js', inATurn, call: rawCall(raw), us: [] },
    { name: 'weir-client, `batch: false`', inATurn, call: createCall(clients.plain), us: [] },
    { name: 'weir-client', inATurn, call: createCall(clients.batching), us: [] },
    { name: 'weir-client over HTTP', inATurn, call: createCall(clients.http), us: [] },
    { name: 'engine in memory', inATurn, call: createCall(clients.memory), us: [] },
    { name: 'engine with Redis', inATurn, call: createCall(clients.redis), us: [] },
    { name: 'rate-limiter-flexible', inATurn, call: flexible(ioredis), us: [] },
    { name: '@upstash/ratelimit', inATurn, call: upstash(ioredis), us: [] },
  ]);
  for (const row of rows) await measure(row); // warm-up: compiles code and connects
  for (let round = 0; round < ROUNDS; round++) for (const row of rows) row.us.push(await measure(row));
  print(rows);
  console.log(`\n${await startTable([String(redis.port), target, `http://127.0.0.1:${weir.httpPort}`])}`);
  raw.close();
  for (const client of Object.values(clients)) client.close();
  ioredis.disconnect();
  await Promise.all([weir.stop(), redis.stop()]);
}

function rawCall(client: GrpcClient): Call {
  const { path, requestSerialize, responseDeserialize } = shouldRateLimit;
  return (user) =>
    new Promise((resolve, reject) => {
      const entries = [{ key: 'user', value: user }];
      const descriptors = [{ entries, limit: null, hits_addend: null, is_negative_hits: false }];
      const deadline = Date.now() + TIMEOUT_MS;
      const request = { domain: 'demo', descriptors, hits_addend: 1 };
      client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, { deadline }, (error, answer) =>
        error ? reject(error) : resolve(answer),
      );
    });
}

const createCall =
  (client: Client): Call =>
  async (user) => {
    const { error } = await client.limit('demo', { user });
    if (error) throw error;
  };

/** Five hits a minute for each user, as in the rules. A refusal rejects. */
function flexible(storeClient: Redis): Call {
  const limiter = new RateLimiterRedis({ storeClient, keyPrefix: 'flexible', points: 5, duration: 60 });
  return (user) => limiter.consume(user).catch((refused) => refused);
}

/** The same, by the script of @upstash/ratelimit without its HTTP. */
function upstash(redis: Redis): Call {
  const loaded = new Map<string, string>();
  let missing = '';
  const adapter = {
    evalsha(sha: string, keys: readonly string[], args: readonly unknown[]) {
      const own = loaded.get(sha);
      if (own !== undefined) return redis.evalsha(own, keys.length, ...keys, ...args.map(String));
      missing = sha;
      throw new Error('NOSCRIPT');
    },
    async eval(script: string, keys: readonly string[], args: readonly unknown[]) {
      const own = script.replace(/^#!.*/, ''); // its first line has flags that only Upstash knows
      loaded.set(missing, String(await redis.script('LOAD', own)));
      return redis.eval(own, keys.length, ...keys, ...args.map(String));
    },
  };
  const limiter = new Ratelimit({
    redis: adapter as never, // its other methods are not called
    limiter: Ratelimit.fixedWindow(5, '60 s'),
    ephemeralCache: false,
    prefix: 'upstash',
  });
  return (user) => limiter.limit(user);
}

/** @returns  µs of this process's CPU time per call */
async function measure({ inATurn, call }: Row): Promise<number> {
  const before = process.cpuUsage();
  for (let calls = 0; calls < CALLS; calls += inATurn)
    await Promise.all(Array.from({ length: inATurn }, (_, at) => call(`user-${calls + at}`)));
  const { user, system } = process.cpuUsage(before);
  return (user + system) / CALLS;
}

function print(rows: readonly Row[]): void {
  const lines = rows.map(({ name, inATurn, us }) => {
    const base = rows.find((row) => row.inATurn === inATurn && row.name === 'grpc-js');
    const ratios = us.map((own, at) => own / (base?.us[at] ?? Number.NaN));
    return [String(inATurn), name, median(us).toFixed(1), median(ratios).toFixed(2)];
  });
  console.log(table(['calls in a turn', 'client', 'CPU µs per call', '÷ grpc-js'], 2, lines));
}
