import { after as applyAfter, Later } from '../../src/base/later.ts';

test('a listener is called before resolve returns', () => {
  const later = new Later<number>();
  const seen: number[] = [];
  const doubled = later.map((value) => 2 * value, undefined);
  doubled.map((value) => seen.push(value), undefined);
  expect(seen).toEqual([]);
  later.resolve(21);
  expect(seen).toEqual([42]);
});

test('a listener that is added after the value is called at once', () => {
  const later = new Later<number>();
  later.resolve(1);
  const seen: number[] = [];
  later.map((value) => seen.push(value), undefined);
  expect(seen).toEqual([1]);
});

test('several listeners are called in order', () => {
  const later = new Later<string>();
  const seen: string[] = [];
  for (const name of ['a', 'b', 'c']) later.map((value, by) => seen.push(`${by} ${value}`), name);
  later.resolve('x');
  expect(seen).toEqual(['a x', 'b x', 'c x']);
});

test('only the first outcome counts', async () => {
  const later = new Later<number>();
  expect(later.isSettled).toBe(false);
  later.resolve(1);
  later.resolve(2);
  later.reject(new Error('too late'));
  expect(later.isSettled).toBe(true);
  expect(await later).toBe(1);
});

test('an error in a step is passed on to the steps after it', async () => {
  const later = new Later<number>();
  const failed = later.map((): number => {
    throw new Error('no');
  }, undefined);
  const passed = failed.map((value) => value + 1, undefined);
  const handled = failed.map(
    () => 'value',
    'why: ',
    (cause, context) => `${context}${(cause as Error).message}`,
  );
  const again = failed.map(
    () => 'value',
    undefined,
    (): string => {
      throw new Error('again');
    },
  );
  later.resolve(1);
  await expect(passed).rejects.toThrow('no');
  expect(await handled).toBe('why: no');
  await expect(again).rejects.toThrow('again');
});

test('a rejection reaches those that await it, before and after', async () => {
  const later = new Later<number>();
  const before = expect(later).rejects.toThrow('gone');
  later.reject(new Error('gone'));
  await before;
  await expect(later).rejects.toThrow('gone');
});

test('Promise.all accepts a Later like a promise', async () => {
  const one = new Later<number>();
  const all = Promise.all([one, one, 2]);
  one.resolve(1);
  expect(await all).toEqual([1, 1, 2]);
});

describe('after', () => {
  const step = ({ n }: { n: number }, by: number): number => n * by;

  test('applies the step at once to an existing value', () => {
    expect(applyAfter({ n: 2 }, step, 3)).toBe(6);
  });

  test('applies the step as soon as a later value arrives', () => {
    const later = new Later<{ n: number }>();
    const seen: number[] = [];
    const result = applyAfter(later, (value) => seen.push(value.n));
    expect(seen).toEqual([]);
    later.resolve({ n: 5 });
    expect(seen).toEqual([5]);
    return expect(result).resolves.toBe(1);
  });

  test('applies the step to the value of a promise, or the other step to its failure', async () => {
    expect(await applyAfter(Promise.resolve({ n: 2 }), step, 4)).toBe(8);
    const failed = Promise.reject<{ n: number }>(new Error('no'));
    expect(await applyAfter(failed, step, 4, (cause, by) => `${cause} ${by}` as unknown as number)).toBe('Error: no 4');
  });
});
