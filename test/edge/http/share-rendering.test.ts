import { shareRuns } from '../../../src/base/later.ts';

/** Renderings that end on command, numbered from 1. */
function renderings() {
  const ends: ((error?: Error) => void)[] = [];
  const render = () =>
    new Promise<number>((resolve, reject) => {
      const number = ends.length + 1;
      ends.push((error) => (error ? reject(error) : resolve(number)));
    });
  return { ends, shared: shareRuns(render) };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

test('concurrent requests share one rendering, requests during a rendering share the next one', async () => {
  const { ends, shared } = renderings();
  const first = [shared(), shared()];
  await turn();
  expect(ends).toHaveLength(1);
  const later = [shared(), shared(), shared()];
  await turn();
  expect(ends).toHaveLength(1);
  ends[0]?.();
  expect(await Promise.all(first)).toEqual([1, 1]);
  await turn();
  expect(ends).toHaveLength(2);
  ends[1]?.();
  expect(await Promise.all(later)).toEqual([2, 2, 2]);
  const last = shared();
  await turn();
  ends[2]?.();
  expect(await last).toBe(3);
});

test('a failed rendering fails for the requests that share it, and no others', async () => {
  const { ends, shared } = renderings();
  const first = [shared(), shared()];
  await turn();
  const later = shared();
  ends[0]?.(new Error('a bug'));
  expect((await Promise.allSettled(first)).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  await turn();
  ends[1]?.();
  expect(await later).toBe(2);
});
