import '../../helpers/realm.ts';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '../../helpers/grpc-client.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { until } from '../../helpers/until.ts';
import { startWeir } from '../../helpers/weir.ts';

const RULES = 'domain: demo\ndescriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 50}}]\n';

/** Every process has these open, so with this limit it cannot open others. */
const STANDARD_STREAMS = 3;

let folder: string;
let redis: Redis;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'no-descriptors-'));
  redis = await startRedis();
});
afterAll(async () => {
  await redis.stop();
});

/** Sets the soft limit of a running process. */
const limitDescriptors = (pid: number, most: string | number): void => {
  execFileSync('prlimit', ['--pid', String(pid), `--nofile=${most}:`]);
};

const softLimitOf = (pid: number): string => {
  const [, soft] = /^Max open files +(\d+)/m.exec(readFileSync(`/proc/${pid}/limits`, 'utf8')) ?? [];
  if (soft === undefined) throw new Error(`expected a limit of open files of process ${pid}`);
  return soft;
};

const hasPrlimit = spawnSync('prlimit', ['--version']).status === 0;
const testLimited = hasPrlimit ? test : test.skip;

testLimited(
  `a supervisor without a free file descriptor lives on, and replaces the worker when it has one${hasPrlimit ? '' : ' (skipped: no prlimit of util-linux here)'}`,
  async () => {
    const rules = join(folder, 'rules.yaml');
    writeFileSync(rules, RULES);
    const env = { WORKERS: '2', REDIS_URL: redis.url, USE_STATSD: 'false', LOG_LEVEL: 'info' };
    const weir = await startWeir(env, { args: ['--rules', rules] });
    try {
      const listening = () => [...weir.output().matchAll(/worker \d+ \(process (\d+)\) is listening/g)];
      await until('both workers listen', () => listening().length === 2);
      const before = softLimitOf(weir.pid);
      limitDescriptors(weir.pid, STANDARD_STREAMS);
      process.kill(Number(listening()[0]?.[1]), 'SIGKILL');
      await weir.waitFor((printed) => /worker \d+ exited \(no process: spawn .*EMFILE\); restarting in/.test(printed));
      limitDescriptors(weir.pid, before);
      await until('the worker is replaced', () => listening().length === 3);
      const client = createClient(`127.0.0.1:${weir.grpcPort}`);
      expect(await client.ask()).toMatchObject({ overall_code: 1 });
      client.close();
    } finally {
      expect(await weir.stop()).toEqual({ code: 0, signal: null });
    }
  },
);
