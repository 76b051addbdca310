import { firstProblems, type Problem } from '../../../src/engine/rules/read/problem.ts';
import { shownProblems } from '../../../src/operate/admin/candidate-view.ts';

test('all problems that are not shown are counted, including those of which only the number was kept', () => {
  const found = Array.from(
    { length: 40_000 },
    (_, at): Problem => ({
      file: 'rules.yaml',
      line: at,
      path: '',
      severity: 'error',
      message: 'duplicate descriptor',
    }),
  );
  const { problems, moreProblems } = shownProblems(firstProblems(found));
  expect(problems).toHaveLength(200);
  expect(moreProblems).toBe(39_800);
});
