import { withCleanup } from '../../../proof/processes/cleanup.ts';

const failed = async (): Promise<never> => {
  throw new Error('the run has failed');
};

test('steps are taken in reverse order, and the result is returned', async () => {
  const taken: string[] = [];
  const result = await withCleanup(async (onEnd) => {
    onEnd(() => taken.push('first'));
    onEnd(async () => taken.push('second'));
    return 7;
  });
  expect([result, taken]).toEqual([7, ['second', 'first']]);
});

test('a step that hangs or fails hides neither the error of the run nor the steps after it', async () => {
  const taken: string[] = [];
  const run = withCleanup(async (onEnd) => {
    onEnd(() => taken.push('last'));
    onEnd(() => Promise.reject(new Error('the step has failed')));
    onEnd(function hang() {
      return new Promise(() => {});
    });
    return failed();
  }, 10);
  await expect(run).rejects.toThrow(
    /^Error: the run has failed\nError: a step of the clean-up has not ended within 10 ms: .*hang[\s\S]*Error: the step has failed$/,
  );
  expect(taken).toEqual(['last']);
});

test('the only error is thrown unchanged', async () => {
  await expect(withCleanup(failed)).rejects.toThrow(/^the run has failed$/);
  const step = withCleanup(async (onEnd) => onEnd(failed));
  await expect(step).rejects.toThrow(/^the run has failed$/);
});
