import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { startRedis } from '../test/helpers/redis.ts';
import { startWeir } from '../test/helpers/weir.ts';
import type { Load, Tally } from './generator/drive.ts';
import { startGenerator } from './generator/generator.ts';
import { usageOf } from './process-tree.ts';

const usage = `Usage: npm run overload -- [options]

Has ten times, then a hundred times as many calls under way as keep the service busy, each answer beginning the next call at once, then as many as before, and prints
what became of them. Counters are in a Redis that is started for it. Exits with 1 when a call had no answer, or when calls were still refused a second after that.

  --seconds N        how long each overload lasts (60)
  --transport TEXT   value of GRPC_TRANSPORT (h2)
  --lag TEXT         value of OVERLOAD_LAG (5ms)
  --help             this text
`;

const options = {
  seconds: { type: 'string', default: '60' },
  transport: { type: 'string', default: 'h2' },
  lag: { type: 'string', default: '5ms' },
  help: { type: 'boolean', default: false },
} as const;

const DOMAIN = 'bench';
const RULES = `
domain: ${DOMAIN}
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1000000000}}
`;
const BYTES_PER_MIB = 1024 * 1024;
const LOOK_INTERVAL_MS = 250;
const NORMAL = { connections: 4, callsUnderWay: 25, ms: 5_000 };
const TEN_TIMES = { connections: 40, callsUnderWay: 25 };
const HUNDRED_TIMES = { connections: 100, callsUnderWay: 100 };

measure().catch((error: Error) => {
  console.error(error.message);
  process.exitCode = 1;
});

async function measure(): Promise<void> {
  const { values } = parseArgs({ options });
  if (values.help) return void process.stdout.write(usage);
  const redis = await startRedis();
  const generator = startGenerator();
  const folder = mkdtempSync(join(tmpdir(), 'overload-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  const weir = await startWeir(
    { REDIS_URL: redis.url, GRPC_TRANSPORT: values.transport, OVERLOAD_LAG: values.lag, STORE_TIMEOUT: '15ms' },
    { args: ['--rules', folder] },
  );
  try {
    console.log('| load | calls under way | decided/s | in time/s | refused/s | p50 ms | p99 ms | most memory MiB |');
    console.log('| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |');
    const run = async (name: string, load: typeof NORMAL): Promise<Tally> => {
      const memory = watchMemory(weir.pid);
      const tally = await generator.drive(loadOn(weir.grpcPort, load));
      console.log(rowOf(name, load, tally, memory.stop()));
      return tally;
    };
    await run('warm up', NORMAL);
    await run('normal', NORMAL);
    const ms = Number(values.seconds) * 1_000;
    await run('ten times', { ...TEN_TIMES, ms });
    await run('a hundred times', { ...HUNDRED_TIMES, ms });
    await run('normal again, first second', { ...NORMAL, ms: 1_000 });
    const { answers } = await run('normal again', NORMAL);
    if (answers.REFUSED > 0)
      throw new Error(`${answers.REFUSED} calls were refused more than a second after the overload`);
  } finally {
    generator.stop();
    await weir.stop();
    await redis.stop();
    rmSync(folder, { recursive: true });
  }
}

const loadOn = (port: number, { connections, callsUnderWay, ms }: typeof NORMAL): Load => ({
  port,
  connections,
  pace: { kind: 'closed', callsUnderWay, end: { elapsedMs: ms } },
  question: { domain: DOMAIN, descriptors: [{ key: 'user', value: 'user', values: 1_000 }] },
  mayRefuse: true,
});

/** The most that a process has of memory, from now on. */
function watchMemory(pid: number) {
  let most = 0;
  const look = () => {
    most = Math.max(most, usageOf(pid).memoryBytes);
  };
  const timer = setInterval(look, LOOK_INTERVAL_MS);
  return {
    stop(): number {
      clearInterval(timer);
      look();
      return most;
    },
  };
}

function rowOf(
  name: string,
  { connections, callsUnderWay }: typeof NORMAL,
  { answers, inTime, elapsedMs, p50Ms, p99Ms }: Tally,
  memoryBytes: number,
): string {
  const perSecond = (count: number): string => ((count / elapsedMs) * 1_000).toFixed(0);
  const cells = [
    name,
    connections * callsUnderWay,
    perSecond(answers.OK + answers.OVER_LIMIT),
    perSecond(inTime),
    perSecond(answers.REFUSED),
    p50Ms.toFixed(1),
    p99Ms.toFixed(1),
    (memoryBytes / BYTES_PER_MIB).toFixed(0),
  ];
  return `| ${cells.join(' | ')} |`;
}
