import { setImmediate as nextTurn } from 'node:timers/promises';
import { InputTurns } from '../../../src/edge/http/input-turns.ts';

/** Larger than the share of any turn. */
const ALL = 1_000_000;

test('a turn has capacity until its units are spent, and the next one has capacity again', async () => {
  const turns = new InputTurns();
  turns.spend(32_767);
  expect(turns.hasRoom).toBe(true);
  turns.spend(1);
  expect(turns.hasRoom).toBe(false);
  await nextTurn();
  expect(turns.hasRoom).toBe(true);
});

test('waiting input is handled in order, as much per turn as fits, and input that waits again comes last', async () => {
  const turns = new InputTurns();
  const served: string[] = [];
  const serve = (name: string, units: number) => (): void => {
    served.push(name);
    turns.spend(units);
  };
  turns.wait(serve('a', 1));
  turns.wait(() => {
    serve('b', ALL)();
    turns.wait(serve('b again', 1));
  });
  turns.wait(serve('c', ALL));
  expect(served).toEqual([]);
  await nextTurn();
  expect(served).toEqual(['a', 'b']);
  await nextTurn();
  expect(served).toEqual(['a', 'b', 'c']);
  await nextTurn();
  expect(served).toEqual(['a', 'b', 'c', 'b again']);
});
