import { packNumbers, unpackState } from '../../../src/engine/backends/packed-state.ts';

test.each([
  [[1_700_000_000_000, 3]],
  [[-5, 0]],
  [[Number.MAX_SAFE_INTEGER]],
  [Array.from({ length: 40 }, (_, at) => at)],
])('the state %j is read as it was written', (state) => {
  expect(unpackState(packNumbers(state))).toEqual(state);
});

test.each([
  ['a text of sixteen octets', Buffer.from('sixteen octets..')],
  ['a fraction', packNumbers([1_700_000_000_000, 0.5])],
  ['a number that is too large', packNumbers([2 ** 53])],
  ['no number', packNumbers([Number.NaN])],
  ['no octets', Buffer.alloc(0)],
  ['half a number', Buffer.alloc(12)],
])('%s is no state', (_, packed) => {
  expect(unpackState(packed)).toBeUndefined();
});
