import { appendFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'weir-client';
import { createDeferredWorker } from 'weir-client/bullmq';

/** A test's job: its key, and its number among the jobs of that key. */
interface Work {
  readonly key: string;
  readonly at: number;
  readonly runMs: number;
}

const [target = '', redisPort = '', log = '', lockDuration = ''] = process.argv.slice(2);

const client = createClient({ target, timeoutMs: 60_000 });

/** Processes on one machine share the monotonic clock, and appended lines outlive a process that is killed. */
const note = (what: string, { key, at }: Work) =>
  appendFileSync(log, `${process.hrtime.bigint()} ${what} ${key} ${at} ${process.pid}\n`);

const { worker, close, stats } = createDeferredWorker<Work>(
  'work',
  async ({ data }) => {
    note('start', data);
    if (data.runMs > 0) await sleep(data.runMs);
    note('end', data);
  },
  {
    connection: { host: '127.0.0.1', port: Number(redisPort) },
    client,
    domain: 'work',
    key: ({ key }) => ({ key }),
    concurrency: 20,
    lockDuration: Number(lockDuration),
    stalledInterval: 1_000,
    checkIntervalMs: 1_000,
    timeoutMs: 60_000,
  },
);
worker.on('error', () => {}); // Redis restarts
await worker.waitUntilReady();
process.stdout.write('ready\n');
process.once('SIGTERM', async () => {
  await close();
  client.close();
  process.stdout.write(`${JSON.stringify(stats())}\n`);
  process.exit();
});
