import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Tally } from '../../proof/bench/generator/drive.ts';
import { type Generator, startGenerator } from '../../proof/bench/generator/generator.ts';
import type { Question } from '../../proof/bench/generator/requests.ts';
import { readUsage } from '../../proof/processes/process-tree.ts';
import { startRedis } from '../helpers/redis.ts';
import { until } from '../helpers/until.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

const LIMIT = 50;
const RULES = `
domain: demo
descriptors:
  - {key: user, rate_limit: {unit: day, requests_per_unit: 1000000000, on_store_failure: local}}
  - {key: abuser, rate_limit: {unit: day, requests_per_unit: ${LIMIT}, on_store_failure: local}}
`;
const users: Question = { domain: 'demo', descriptors: [{ key: 'user', value: 'user', values: 1_000 }] };
const abuser: Question = { domain: 'demo', descriptors: [{ key: 'abuser', value: 'one' }] };
const large: Question = {
  domain: 'demo',
  descriptors: Array.from({ length: 100 }, (_, at) => ({ key: 'user', value: `user-${at}` })),
};
const BYTES_PER_MIB = 1024 * 1024;
const MAX_MIB = 1_000;

let folder: string;
let generator: Generator;
let otherGenerator: Generator;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'overload-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  generator = startGenerator();
  otherGenerator = startGenerator();
});
afterAll(() => {
  generator.stop();
  otherGenerator.stop();
});

/** Starts a service with its defaults. */
const startDefault = (env: Readonly<Record<string, string>> = {}): Promise<Weir> =>
  startWeir(env, { args: ['--rules', folder], isPatient: false });

interface ClosedLoop {
  readonly connections: number;
  /** On each connection. */
  readonly callsInFlight: number;
  readonly ms: number;
  readonly by?: Generator;
}

/** Each answer starts the next call. Calls have no deadline. */
function drive({ grpcPort: port }: Weir, question: Question, load: ClosedLoop): Promise<Tally> {
  const { connections, callsInFlight, ms, by = generator } = load;
  const pace = { kind: 'closed', callsInFlight, end: { elapsedMs: ms } } as const;
  return by.drive({ port, connections, question, pace, mayRefuse: true });
}

const memoryMib = ({ pid }: Weir): number => readUsage(pid).memoryBytes / BYTES_PER_MIB;

test('with counters in memory, each of ten thousand concurrent calls is decided, and one user gets exactly its limit', async () => {
  const weir = await startDefault();
  try {
    const { answers } = await drive(weir, abuser, { connections: 100, callsInFlight: 100, ms: 1_000 });
    expect(answers).toMatchObject({ OK: LIMIT, REFUSED: 0 });
    expect(answers.OVER_LIMIT).toBeGreaterThanOrEqual(10_000 - LIMIT);
    expect(memoryMib(weir)).toBeLessThan(MAX_MIB);
  } finally {
    await weir.stop();
  }
});

test('with counters in memory, each of a thousand concurrent calls with 100 descriptors is decided', async () => {
  const weir = await startDefault();
  try {
    const { answers } = await drive(weir, large, { connections: 20, callsInFlight: 50, ms: 1_000 });
    expect(answers).toMatchObject({ OVER_LIMIT: 0, REFUSED: 0 });
    expect(answers.OK).toBeGreaterThanOrEqual(1_000);
    expect(memoryMib(weir)).toBeLessThan(MAX_MIB);
  } finally {
    await weir.stop();
  }
});

/** The hits decided without the store. */
async function degradedHits({ debugPort }: Weir): Promise<number> {
  const page = await (await fetch(`http://127.0.0.1:${debugPort}/metrics`)).text();
  const samples = page.matchAll(/^weir_hits_degraded_total\S* (\d+)$/gm);
  return Array.from(samples).reduce((sum, [, hits]) => sum + Number(hits), 0);
}

test('with Redis, each of ten thousand concurrent calls of a user is decided, at most twice the limit passes, others are refused nothing, and the service recovers', async () => {
  const redis = await startRedis();
  const weir = await startDefault({ REDIS_URL: redis.url });
  /** Redis may be late while other processes use this machine. */
  const isNormalLoadCounted = async (): Promise<boolean> => {
    const before = await degradedHits(weir);
    const { answers } = await drive(weir, users, { connections: 4, callsInFlight: 20, ms: 500 });
    expect(answers).toMatchObject({ OVER_LIMIT: 0, REFUSED: 0 });
    return (await degradedHits(weir)) === before;
  };
  try {
    await until('Redis counts all calls of a normal load', isNormalLoadCounted);
    const [abuse, honest] = await Promise.all([
      drive(weir, abuser, { connections: 100, callsInFlight: 100, ms: 1_500 }),
      drive(weir, users, { connections: 4, callsInFlight: 5, ms: 1_500, by: otherGenerator }),
    ]);
    expect(abuse.answers.REFUSED).toBe(0);
    expect(abuse.answers.OK).toBeLessThanOrEqual(2 * LIMIT);
    expect(honest.answers).toMatchObject({ OVER_LIMIT: 0, REFUSED: 0 });
    expect(memoryMib(weir)).toBeLessThan(MAX_MIB);
    await until('Redis counts them again', isNormalLoadCounted);
  } finally {
    await weir.stop();
    await redis.stop();
  }
});
