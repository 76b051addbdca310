import { median } from '../../../proof/tables/figures.ts';

test.each([
  [[3], 3],
  [[9, 1, 5], 5],
  [[4, 1, 10, 2], 3],
  [[10, 9, 100], 10],
])('the median of %j is %d', (numbers, expected) => {
  expect(median(numbers)).toBe(expected);
});

test('an empty list has no median', () => {
  expect(median([])).toBeNaN();
});
