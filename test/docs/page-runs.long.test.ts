import '../helpers/realm.ts';
import { updateOrCompare } from '../helpers/pages/compare.ts';
import { runPage } from '../helpers/pages/run-page.ts';
import { pageRuns } from '../helpers/pages/runs.ts';

/** The pages but README.md, which page-runs.test.ts runs. */
const pagesThat = (isExact: boolean) =>
  Object.entries(pageRuns).filter(([path, run]) => path !== 'README.md' && (run.isExact ?? false) === isExact);

test.each(pagesThat(true))('the commands of %s print the output that the page shows', updateOrCompare);

test.each(pagesThat(false))('the commands of %s end without an error', async (path, setup) => {
  const ran = await runPage(path, setup);
  expect(ran.length).toBeGreaterThan(0);
  expect(ran.filter(({ code }) => code !== 0)).toEqual([]);
});
