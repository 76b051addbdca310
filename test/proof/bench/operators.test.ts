import { exceeding, measureOperators } from '../../../proof/bench/operators.ts';

test('a ratio counts only above 1.3 and above every ratio of the control', () => {
  const measured = (control: readonly number[], ratios: readonly number[]) => [
    { name: 'nothing', ratios: [1, 1, 1] },
    { name: 'control', ratios: control },
    { name: 'a use', ratios },
  ];
  const names = (all: ReturnType<typeof measured>) => exceeding(all).map(({ name }) => name);
  expect(names(measured([0.9, 1, 1.1], [1.2, 1.3, 9]))).toEqual([]);
  expect(names(measured([0.9, 1, 1.1], [1.2, 1.4, 1.5]))).toEqual(['a use']);
  expect(names(measured([0.9, 1, 1.5], [1.2, 1.4, 1.5]))).toEqual([]);
});

test('calls are measured without and with each use of the service', async () => {
  const { measured, series } = await measureOperators({ rules: 100, rate: 200, seconds: 0.5, rounds: 1 });
  const [without, ...others] = measured;
  expect(without).toMatchObject({ name: 'nothing', ratios: [1] });
  for (const { samples } of measured) expect(samples).toMatchObject([{ answers: { OK: 100 } }]);
  const used = others.flatMap(({ name, samples }) => (samples[0]?.times === undefined ? [] : [name]));
  expect(used).toHaveLength(6);
  for (const { samples } of others) expect(samples[0]?.times).not.toBe(0);
  expect(series).toBeGreaterThan(200);
});
