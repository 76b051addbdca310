import { type ChildProcess, fork } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Redis as Connection } from 'ioredis';
import { MAX_WINDOW_MS, type Spend } from '../../../src/engine/algorithms/limit.ts';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import type { Limit } from '../../../src/engine/holds/limits.ts';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import { openReady } from '../../helpers/connection.ts';
import { fixedWindowOf, limitsOfEach } from '../../helpers/limits.ts';
import { operationOf } from '../../helpers/operations.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';

const PROCESSES = 4;
const IN_FLIGHT = 50;
const CALLS = 200; // per process and job

/** The results of a process's calls. */
interface Passed {
  readonly unavailable: number;
  /** Calls that all limits admitted, by counter. */
  readonly whole: readonly number[];
  /** Admitted hits by limit. */
  readonly each: readonly number[];
  readonly soft: number;
}

let server: Redis;
let connection: Connection;
let processes: readonly ChildProcess[];
beforeAll(async () => {
  server = await startRedis();
  connection = (await openReady(server)).setMaxListeners(0); // each look at the counters has its own backend on it
  const hammer = fileURLToPath(new URL('./hammer.mjs', import.meta.url));
  processes = Array.from({ length: PROCESSES }, () =>
    fork(hammer, [String(server.port)], { execArgv: ['--import', 'tsx'] }),
  );
  await Promise.all(processes.map((one) => once(one, 'message')));
});
afterAll(async () => {
  await Promise.all(
    processes.map((one) => {
      const gone = once(one, 'exit');
      one.kill();
      return gone;
    }),
  );
  connection.disconnect();
  await server.stop();
});

interface Job {
  readonly limits: readonly Limit[];
  readonly counters?: number;
  readonly spend?: Spend;
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);

/** Runs the job in all processes at once. */
async function hammer({ limits, counters = 1, spend = 'each' }: Job) {
  const prefix = `${randomUUID()}:`;
  const job = { prefix, limits, counters, spend, calls: CALLS, inFlight: IN_FLIGHT };
  const answers = await Promise.all(
    processes.map(async (one): Promise<Passed> => {
      const answer = once(one, 'message');
      one.send(job);
      const [passed] = await answer;
      return passed;
    }),
  );
  expect(sum(answers.map(({ unavailable }) => unavailable))).toBe(0);
  return {
    whole: Array.from({ length: counters }, (_, at) => sum(answers.map(({ whole }) => whole[at] ?? 0))),
    each: limits.map((_, at) => sum(answers.map(({ each }) => each[at] ?? 0))),
    soft: sum(answers.map(({ soft }) => soft)),
    /** The remaining hits of each limit of a counter. */
    left: async (counter: number) => {
      const store = new RedisBackend(connection, Date.now);
      const looks = limits.map((limit, at) => {
        return operationOf({ key: `${prefix}${counter}|${at}` as CounterKey }, limit, 0, true); // the key that hammer.mjs uses
      });
      const decisions = await store.run(looks, { spend: 'each', timeoutMs: 30_000 });
      return decisions.map((one) => ('limitRemaining' in one ? one.limitRemaining : one.reason));
    },
  };
}

/** One limit of each kind; none restores hits during the test. */
const limitOf = (kind: number, hits: number): Limit =>
  limitsOfEach(hits, MAX_WINDOW_MS)[kind] ?? fixedWindowOf(hits, MAX_WINDOW_MS);
/** Redis runs one script at a time, whatever it counts: a kind each with a short state, a long one, and two times. */
const kinds = limitsOfEach(1)
  .map(({ algorithm }, kind) => ({ kind, algorithm }))
  .filter(({ algorithm }) => ['fixed_window', 'sliding_window_log', 'token_bucket'].includes(algorithm));

describe.each(kinds)('four processes on limits of kind $kind, $algorithm,', ({ kind }) => {
  test('are admitted exactly the limit on one hot counter', async () => {
    const { whole, left } = await hammer({ limits: [limitOf(kind, 300)] });
    expect(whole).toEqual([300]);
    expect(await left(0)).toEqual([0]);
  });

  test('are admitted exactly the limit on each of many counters', async () => {
    const { whole, left } = await hammer({ limits: [limitOf(kind, 30)], counters: 20 }); // with 40 requests each
    expect(whole).toEqual(new Array(20).fill(30));
    expect(await left(19)).toEqual([0]);
  });

  test.each([
    { spend: 'each', each: [300, 200, 300], left: [0, 0, 0] },
    { spend: 'all_or_nothing', each: undefined, left: [100, 0, 100] },
    { spend: 'spare_others', each: undefined, left: [100, 0, 100] },
  ] as const)('never leave a set of three limits partly charged, with $spend', async ({ spend, each, left }) => {
    const job = { limits: [limitOf(kind, 300), limitOf(kind, 200), limitOf(kind, 300)], spend };
    const result = await hammer(job);
    expect(result.whole).toEqual([200]);
    if (each) expect(result.each).toEqual(each);
    expect(await result.left(0)).toEqual(left);
  });
});
