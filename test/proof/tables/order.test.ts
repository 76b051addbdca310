import { roundOrder } from '../../../proof/tables/order.ts';

const ordersOf = (rounds: number, subjects: number) =>
  Array.from({ length: rounds }, (_, round) => roundOrder(round, subjects));

test('six rounds measure three subjects in all six orders', () => {
  expect(ordersOf(6, 3)).toEqual([
    [0, 1, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
    [0, 2, 1],
    [1, 0, 2],
  ]);
});

test.each([1, 2, 3, 4, 5])('every round measures each of %i subjects once', (subjects) => {
  for (const order of ordersOf(20, subjects)) {
    expect([...order].sort()).toEqual(Array.from({ length: subjects }, (_, at) => at));
  }
});

test.each([2, 3, 4, 5])('each of %i subjects is at every place equally often in two cycles', (subjects) => {
  const orders = ordersOf(2 * subjects, subjects);
  for (let place = 0; place < subjects; place++) {
    const here = orders.map((order) => order[place]);
    for (let subject = 0; subject < subjects; subject++) expect(here.filter((at) => at === subject)).toHaveLength(2);
  }
});

test('each of three subjects follows each other one equally often in six rounds', () => {
  const followings = ordersOf(6, 3).flatMap(([first, second, third]) => [`${first}${second}`, `${second}${third}`]);
  for (const following of ['01', '02', '10', '12', '20', '21']) {
    expect(followings.filter((each) => each === following)).toHaveLength(2);
  }
});
