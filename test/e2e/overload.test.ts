import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Load, Tally } from '../../bench/generator/drive.ts';
import { type Generator, startGenerator } from '../../bench/generator/generator.ts';
import { usageOf } from '../../bench/process-tree.ts';
import { type Redis, startRedis } from '../helpers/redis.ts';
import { until } from '../helpers/until.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

const RULES = `
domain: demo
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1000000000}}
`;
const BYTES_PER_MIB = 1024 * 1024;

let folder: string;
let redis: Redis;
let weir: Weir;
let generator: Generator;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'overload-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  redis = await startRedis();
  weir = await startWeir({ REDIS_URL: redis.url, OVERLOAD_LAG: '5ms' }, { args: ['--rules', folder] });
  generator = startGenerator();
});
afterAll(async () => {
  generator.stop();
  await weir.stop();
  await redis.stop();
  rmSync(folder, { recursive: true });
});

/** Drives a closed loop: each answer starts the next call. */
const drive = (connections: number, callsInFlight: number, ms: number): Promise<Tally> => {
  const pace: Load['pace'] = { kind: 'closed', callsInFlight, end: { elapsedMs: ms } };
  const question = { domain: 'demo', descriptors: [{ key: 'user', value: 'user', values: 1_000 }] };
  return generator.drive({ port: weir.grpcPort, connections, pace, question, mayRefuse: true });
};

/** The number of calls shed since the start. */
async function shed({ debugPort }: Weir = weir): Promise<number> {
  const metrics = await (await fetch(`http://127.0.0.1:${debugPort}/metrics`)).text();
  return Number(/^weir_calls_shed_total (\d+)$/m.exec(metrics)?.[1]);
}

/** Other processes may delay the service for longer than its callers may wait. */
async function isNormalLoadAnswered(): Promise<boolean> {
  const before = await shed();
  const { answers } = await drive(4, 20, 1_000);
  expect(answers.OVER_LIMIT).toBe(0);
  return answers.REFUSED === 0 && (await shed()) === before;
}

test('each of ten thousand concurrent calls is answered or refused, memory is bounded, and the service recovers', async () => {
  await until('all calls of a normal load are answered', isNormalLoadAnswered);

  const before = await shed();
  const { answers } = await drive(100, 100, 4_000); // it ends when the last call has its answer
  expect(answers.OK).toBeGreaterThan(0);
  expect(answers.REFUSED).toBeGreaterThan(0);
  expect(await shed()).toBeGreaterThan(before);
  expect(usageOf(weir.pid).memoryBytes / BYTES_PER_MIB).toBeLessThan(1_000);

  await until('they are answered again', isNormalLoadAnswered);
});

test('the service refuses some of a thousand concurrent calls with 100 descriptors on counters in memory, and decides others', async () => {
  const alone = await startWeir({ OVERLOAD_LAG: '5ms' }, { args: ['--rules', folder] });
  try {
    const pace: Load['pace'] = { kind: 'closed', callsInFlight: 50, end: { elapsedMs: 2_000 } };
    const descriptors = Array.from({ length: 100 }, (_, at) => ({ key: 'user', value: `user-${at}` }));
    const question = { domain: 'demo', descriptors };
    const { answers } = await generator.drive({
      ...{ port: alone.grpcPort, connections: 20, mayRefuse: true },
      ...{ pace, question },
    });
    expect(answers.OK).toBeGreaterThan(0);
    expect(answers.REFUSED).toBeGreaterThan(0);
    expect(await shed(alone)).toBeGreaterThan(0);
  } finally {
    await alone.stop();
  }
});
