import { once } from 'node:events';
import { connect as openSocket } from 'node:net';
import type { Redis as Connection } from 'ioredis';
import { unitMs } from '../../../src/engine/algorithms/limit.ts';
import { createCounterKeys } from '../../../src/engine/backends/key.ts';
import type { Limit } from '../../../src/engine/holds/limits.ts';
import type { Pipeline } from '../../../src/parts/redis/commands.ts';
import { WindowCounts } from '../../../src/parts/redis/window-counts.ts';
import { openReady } from '../../helpers/connection.ts';
import { calendarWindowOf, fixedWindowOf } from '../../helpers/limits.ts';
import { randomOf } from '../../helpers/random.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';

/** How often a process is killed; `KILLS=10000` for the long form. */
const KILLS = Number(process.env.KILLS ?? 500);
const COUNTERS = 6;
const NO_EXPIRY = -1;

let server: Redis;
let operator: Connection;
beforeAll(async () => {
  server = await startRedis();
  operator = await openReady(server);
});
afterAll(async () => {
  operator.disconnect();
  await server.stop();
});

type Change = Parameters<WindowCounts['count']>[0][number];

/**
 * A process that counts windows.
 *
 * @param dieIn  writes a part of the last call, after which the process is killed
 */
function startProcess(dieIn: (octets: Buffer) => Promise<void>) {
  let isDying = false;
  const send = async (commands: Pipeline): Promise<readonly unknown[]> => {
    if (!isDying) return commands.send(operator);
    await dieIn(octetsOf(commands));
    throw new Error('the process was killed');
  };
  const counts = new WindowCounts(send, () => Date.now());
  return {
    count: (changes: readonly Change[]) => counts.count(changes, 0),
    async die(changes: readonly Change[]): Promise<void> {
      isDying = true;
      await expect(counts.count(changes, 0)).rejects.toThrow('was killed');
      counts.close();
    },
  };
}

function octetsOf(commands: Pipeline): Buffer {
  let octets: Buffer = Buffer.alloc(0);
  const sendCommand = (command: { toWritable(): Buffer }): void => {
    octets = command.toWritable();
  };
  void commands.send({ commandQueue: [], sendCommand } as unknown as Connection);
  return octets;
}

/** Redis runs what has arrived whole. */
async function write(octets: Buffer): Promise<void> {
  const socket = openSocket(server.port, '127.0.0.1');
  socket.end(octets);
  socket.resume();
  await once(socket, 'close');
}

const keys = createCounterKeys('');
const limits: readonly Limit[] = [
  fixedWindowOf(5, unitMs.HOUR),
  fixedWindowOf(5, unitMs.HOUR, { alignment: 'first_hit' }),
  calendarWindowOf(5, 'MONTH', 'Europe/Madrid'),
];

function createChanges(random: () => number): () => readonly Change[] {
  const below = (bound: number): number => Math.floor(random() * bound);
  const createChange = (): Change => {
    const limit = limits[below(limits.length)] as Limit;
    const instead = ([undefined, undefined, undefined, 'read', 'reset'] as const)[below(5)];
    return { key: keys(limit, `counter ${below(COUNTERS)}`, []), limit, hits: instead ? 0 : below(7) - 2, instead };
  };
  return () => Array.from({ length: 1 + below(3) }, createChange);
}

/** Keys without an expiry. */
async function listEternal(): Promise<readonly string[]> {
  const eternal: string[] = [];
  for (const key of await operator.keys('*')) if ((await operator.pttl(key)) === NO_EXPIRY) eternal.push(key);
  return eternal;
}

test('no counter is without an expiry, wherever the processes that count it are killed', async () => {
  for (let seed = 0; seed < KILLS; seed++) {
    const random = randomOf(seed);
    const createCall = createChanges(random);
    const cut = (octets: Buffer): Promise<void> => write(octets.subarray(0, Math.floor(random() * octets.length)));
    const [killed, other] = [startProcess(cut), startProcess(cut)];
    for (let calls = Math.floor(random() * 4); calls > 0; calls--)
      await (random() < 0.5 ? killed : other).count(createCall());
    await killed.die(createCall());
    expect({ seed, eternal: await listEternal() }).toEqual({ seed, eternal: [] });
    await other.count(createCall());
    expect({ seed, eternal: await listEternal() }).toEqual({ seed, eternal: [] });
    if (seed % 10 === 9) await operator.flushall();
  }
});

test('a counter that Redis lost while its process was killed has an expiry after the next spend of a new one', async () => {
  const spend: Change = { key: keys(limits[0] as Limit, 'lost', []), limit: limits[0] as Limit, hits: 1 };
  const killed = startProcess(write);
  await killed.count([spend]);
  await operator.del(spend.key);
  await killed.die([spend]);
  expect(await listEternal()).toEqual([spend.key]);
  await startProcess(write).count([spend]);
  expect(await listEternal()).toEqual([]);
});
