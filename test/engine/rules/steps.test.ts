import { inSlices, type Steps } from '../../../src/engine/rules/compile/steps.ts';

const NODES_A_TURN = 32;

test.each([1, 0.1, 5])('steps of %d nodes are taken in turns', async (nodes) => {
  let size = 0;
  const turns: number[] = [];
  function* work(): Steps<string> {
    for (let step = 0; step < 5_000; step++) {
      size += nodes;
      yield nodes;
    }
    return 'done';
  }
  const pause = async (): Promise<void> => {
    turns.push(size);
    size = 0;
  };
  expect(await inSlices(work(), pause)).toBe('done');
  expect(turns.length).toBeGreaterThan(1);
  expect(Math.max(...turns)).toBeLessThan(NODES_A_TURN + nodes);
});
