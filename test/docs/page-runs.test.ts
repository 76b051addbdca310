import '../helpers/realm.ts';
import { writeFileSync } from 'node:fs';
import { lasting, runPage, withOutput } from '../helpers/pages/run-page.ts';
import { pageRuns } from '../helpers/pages/runs.ts';

const pagesThat = (isExact: boolean) =>
  Object.entries(pageRuns).filter(([, run]) => (run.isExact ?? false) === isExact);

test.each(pagesThat(true))('the commands of %s print the output that the page shows', async (path, setup) => {
  const ran = await runPage(path, setup);
  if (process.env.UPDATE_PAGES === '1') return writeFileSync(path, withOutput(path, ran));
  expect(ran.filter(({ shown }) => shown !== undefined).length).toBeGreaterThan(1);
  for (const { command, shown, printed } of ran) {
    expect({ command, printed: shown === undefined ? printed : lasting(printed) }).toEqual({
      command,
      printed: shown === undefined ? expect.not.stringMatching(/error|unknown|expected/i) : lasting(shown),
    });
  }
});

test.each(pagesThat(false))('the commands of %s end without an error', async (path, setup) => {
  const ran = await runPage(path, setup);
  expect(ran.length).toBeGreaterThan(0);
  expect(ran.filter(({ code }) => code !== 0)).toEqual([]);
});
