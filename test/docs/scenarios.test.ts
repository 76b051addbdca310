import '../helpers/realm.ts';
import { readFileSync } from 'node:fs';
import { pathOf, scenarioPlot } from '../../docs/scenario-plots.ts';
import { scenarioNames } from '../../src/lab/simulate/scenario-names.ts';

test.each(['nat', 'scraper'] as const)('the plot of %s shows the results of the algorithms', async (name) =>
  expect(readFileSync(pathOf(name), 'utf8')).toBe(await scenarioPlot(name)),
);

test.each(scenarioNames)('there is a plot of %s with a title', (name) =>
  expect(readFileSync(pathOf(name), 'utf8')).toMatch(/<title>.*fixed_window [\d,]+ wrong refusals.*leaky_bucket/),
);
