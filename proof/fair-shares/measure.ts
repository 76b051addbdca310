import type { CounterKey } from '../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../src/engine/backends/memory/backend.ts';
import { RedisBackend } from '../../src/parts/redis/backend.ts';
import { fakeClock } from '../../test/helpers/clock.ts';
import { openReady } from '../../test/helpers/connection.ts';
import { startRedis } from '../../test/helpers/redis.ts';
import { anyShareTree, type MeasuredChild, measureSlots, measureTree } from '../../test/helpers/share-trees.ts';

/** One tree: its seed, and what its children got. */
export interface MeasuredTree {
  readonly seed: number;
  readonly levels: number;
  readonly children: readonly MeasuredChild[];
  /** By how much the limit was exceeded. */
  readonly excess: number;
}

/** Trees of one kind on one store. */
export interface TreeRun {
  readonly of: 'rates' | 'slots';
  readonly store: 'memory' | 'Redis, two instances';
  readonly trees: readonly MeasuredTree[];
}

const LEVELS = 3;
const measures = { rates: measureTree, slots: measureSlots } as const;
const kinds = ['rates', 'slots'] as const;
/** Trees that are played at the same time on Redis, whose replies take longer than steps. */
const AT_ONCE = 8;
const TIMEOUT_MS = 60_000;

type Measure = typeof measureTree;
type Stores = Parameters<Measure>[1]['stores'];
type Clock = Parameters<Measure>[1]['clock'];

/** Plays the trees with the seeds from 1 on. */
export async function* measureTrees(count: Readonly<Record<'rates' | 'slots' | 'redis', number>>) {
  const inMemory = (clock: Clock): Stores => [createMemoryBackend(clock, { maxCounters: 1_000 })];
  for (const of of kinds)
    yield { of, store: 'memory', trees: await play(measures[of], count[of], 1, inMemory) } satisfies TreeRun;
  const server = await startRedis();
  const connections = await Promise.all([openReady(server), openReady(server)]);
  const onRedis = (clock: Clock): Stores =>
    connections.map((one) => new RedisBackend(one, clock, { replay: true, slowMs: TIMEOUT_MS }));
  const store = 'Redis, two instances';
  for (const of of kinds)
    yield { of, store, trees: await play(measures[of], count.redis, AT_ONCE, onRedis) } satisfies TreeRun;
  for (const connection of connections) connection.disconnect();
  await server.stop();
}

async function play(measure: Measure, count: number, atOnce: number, open: (clock: Clock) => Stores) {
  const trees: MeasuredTree[] = [];
  const playFrom = async (first: number): Promise<void> => {
    for (let seed = first; seed <= count; seed += atOnce) {
      const clock = fakeClock();
      const levels = 1 + (seed % LEVELS);
      const key = `tree ${measure.name} ${seed}` as CounterKey;
      const { children, excess } = await measure(anyShareTree(seed, levels), { stores: open(clock), clock, key, seed });
      trees[seed - 1] = { seed, levels, children, excess };
    }
  };
  await Promise.all(Array.from({ length: atOnce }, (_, at) => playFrom(at + 1)));
  return trees;
}
