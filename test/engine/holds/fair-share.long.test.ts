import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { anyShareTree, measureTree } from '../../helpers/share-trees.ts';
import { newKey, withRedis } from '../../helpers/shared-stores.ts';

const TREES = Number(process.env['SHARE_TREES'] ?? 1_000);

/** How far the trees are from the fluid model that it is not near. */
async function findWrong(trees: number, stage: (seed: number) => Omit<Parameters<typeof measureTree>[1], 'seed' | 'key'>) {
  const wrong: string[] = [];
  for (let seed = 1; seed <= trees; seed++) {
    const tree = anyShareTree(seed, 1 + (seed % 3));
    const { off, at, excess } = await measureTree(tree, { ...stage(seed), key: newKey(), seed });
    if (off > 1 || excess > 0) wrong.push(`${at}: off by ${off.toFixed(2)} tolerances, ${excess} hits above the limit`);
  }
  return wrong;
}

test('in 1,000 trees, every child is within 5 % of its share or 2 hits per second', async () => {
  const wrong = await findWrong(TREES, () => {
    const clock = fakeClock();
    return { clock, stores: [createMemoryBackend(clock, { maxCounters: 1_000 })] };
  });
  expect(wrong).toEqual([]);
}, 3_600_000);

const clock = fakeClock();
const { opened, ...store } = { opened: withRedis(clock), ...{} };

test('so it is in Redis', async () => {
  expect(store).toEqual({});
  expect(await findWrong(Math.ceil(TREES / 100), () => ({ clock, stores: [opened.redis] }))).toEqual([]);
}, 600_000);
