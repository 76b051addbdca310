import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { median } from '../tables/figures.ts';
import { table } from '../tables/table.ts';

const ROUNDS = 7;

/** Programs that make their first decision, with the Redis port and the targets as arguments. */
const programs: Readonly<Record<string, string>> = {
  'Node alone': '',
  'weir-client over gRPC': clientOf('{ target: grpc }'),
  'weir-client over HTTP': clientOf('{ target: http }'),
  'engine in memory': engineOf(''),
  'engine with Redis': engineOf(", store: { redis: 'redis://127.0.0.1:' + redis }"),
  'rate-limiter-flexible': `
    const { Redis } = await import('ioredis');
    const { RateLimiterRedis } = await import('rate-limiter-flexible');
    const storeClient = new Redis(redis, '127.0.0.1');
    await new RateLimiterRedis({ storeClient, points: 5, duration: 60 }).consume('alice').catch((refused) => refused);`,
};

function clientOf(options: string): string {
  return `
    const { createClient } = await import('weir-client');
    const client = createClient({ ...${options}, timeoutMs: 30_000 });
    const { error } = await client.limit('demo', { user: 'alice' });
    if (error) throw error;`;
}

function engineOf(store: string): string {
  return `
    const { createEngine } = await import('weir-rls/engine');
    const engine = await createEngine({ rules: { files: ['config/rules.yaml'] }${store} });${clientOf('{ engine }')}`;
}

/** The time and memory until the first decision of a new process; of which Node's own are the first row. */
export async function startTable(args: readonly string[]): Promise<string> {
  const lines: string[][] = [];
  for (const [name, program] of Object.entries(programs)) {
    const samples: (readonly number[])[] = [];
    for (let round = 0; round < ROUNDS; round++) samples.push(await startOnce(program, args));
    lines.push([name, ...[0, 1, 2].map((column) => median(samples.map((sample) => sample[column] ?? 0)).toFixed(0))]);
  }
  return table(['until the first decision', 'ms', 'CPU ms', 'MB of memory'], 1, lines);
}

async function startOnce(program: string, args: readonly string[]): Promise<readonly number[]> {
  const source = `const [, redis, grpc, http] = process.argv;
    const startMs = performance.now();${program}
    const ms = performance.now() - startMs;
    const { user, system } = process.cpuUsage();
    gc();
    console.log(ms, (user + system) / 1e3, process.memoryUsage.rss() / 1e6);
    process.exit();`;
  const node = ['--expose-gc', '--input-type=module', '--eval', source, ...args];
  const { stdout } = await promisify(execFile)(process.execPath, node);
  return stdout.trim().split(' ').map(Number);
}
