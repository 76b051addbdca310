import { after as applyAfter, Later } from '../../src/base/later.ts';

test('listeners are called in order before resolve returns, and at once if they are added later', () => {
  const later = new Later<number>();
  const seen: string[] = [];
  const doubled = later.map((value) => 2 * value, undefined);
  for (const name of ['a', 'b']) later.map((value, by) => seen.push(`${by} ${value}`), name);
  doubled.map((value) => seen.push(`doubled ${value}`), undefined);
  expect(seen).toEqual([]);
  later.resolve(21);
  expect(seen.toSorted()).toEqual(['a 21', 'b 21', 'doubled 42']);
  expect(seen.indexOf('a 21')).toBeLessThan(seen.indexOf('b 21'));
  later.map((value) => seen.push(`late ${value}`), undefined);
  expect(seen.at(-1)).toBe('late 21');
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
