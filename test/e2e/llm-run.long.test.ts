import '../helpers/realm.ts';
import { runLlm } from '../helpers/llm-run.ts';

const CALLS = 100_000;
/** As many of the calls as a busy machine answers in this time. */
const MAX_MS = 60_000;

test(`up to ${CALLS} calls are charged what they reported or left reserved, budgets hold, and each path without usage is found`, async () => {
  const run = await runLlm({ calls: CALLS, maxMs: MAX_MS, atOnce: 400, killedCalls: 400 });
  expect(run.wrongTenants).toEqual([]);
  expect(run.undecided).toBe(0);
  for (const count of [run.finished, run.failed, run.aborted, run.refused, run.budget.refused])
    expect(count).toBeGreaterThan(0);
  expect(run.budget.mostCharged).toBeLessThanOrEqual(run.budget.limit + run.doubtful);
  expect(run.killed).toMatchObject({ wrong: 0, unfinishedWrong: 0 });
  expect(run.killed.exact).toBeGreaterThan(0);
  expect([...run.found.keys()].toSorted()).toEqual(['aborted', 'compressed', 'killed', 'no-usage']);
});
