import {
  countProblems,
  firstProblems,
  MAX_KEPT_PROBLEMS,
  type Problem,
} from '../../../../src/engine/rules/read/problem.ts';

const problem = (line: number): Problem => ({
  ...{ file: 'rules.yaml', line, path: `descriptors[${line}]` },
  ...{ severity: 'error' as const, message: 'duplicate descriptor' },
});

test('the first thousand problems are kept, and the others are counted', () => {
  const few = [problem(1), problem(2)];
  expect(firstProblems(few)).toBe(few);
  const kept = firstProblems(Array.from({ length: 40_000 }, (_, at) => problem(at)));
  expect(kept).toHaveLength(MAX_KEPT_PROBLEMS + 1);
  expect(kept[MAX_KEPT_PROBLEMS - 1]).toEqual(problem(MAX_KEPT_PROBLEMS - 1));
  expect(kept.at(-1)).toEqual({
    ...problem(MAX_KEPT_PROBLEMS),
    ...{ path: '', message: 'and 39,000 more problems, which weir check lists', count: 39_000 },
  });
  expect(countProblems(kept)).toBe(40_000);
});

test('errors are kept before warnings, in the given order', () => {
  const warnings = Array.from({ length: 2_000 }, (_, at): Problem => ({ ...problem(at), severity: 'warning' }));
  const kept = firstProblems([...warnings, problem(5_000)]);
  expect(kept.filter(({ severity }) => severity === 'error')).toEqual([problem(5_000)]);
  expect(kept).toHaveLength(MAX_KEPT_PROBLEMS + 1);
  expect(kept.at(-2)).toEqual(problem(5_000));
});

test('the last problem of a truncated list does not refer to weir check for resources, which have no lines', () => {
  const ofResource = { ...problem(1), line: undefined };
  const kept = firstProblems(new Array<Problem>(MAX_KEPT_PROBLEMS + 2).fill(ofResource));
  expect(kept.at(-1)).toMatchObject({ message: 'and 2 more problems', count: 2 });
});
