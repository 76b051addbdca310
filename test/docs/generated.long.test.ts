import '../helpers/realm.ts';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { plots } from '../../docs/plots.ts';
import { pathOf, scenarioPlot } from '../../docs/scenario-plots.ts';
import { sharePlots } from '../../docs/share-plots.ts';
import { accuracyPage, compareAlgorithms } from '../../proof/accuracy/page.ts';
import { famousPage } from '../../proof/famous/page.ts';
import { scenarioNames } from '../../src/parts/simulate/scenario-names.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const drawings = new Map([...plots, ...sharePlots]);

/** Files that programs write, besides those of test/e2e/readme.test.ts. */
test.each<[string, () => string | Promise<string>]>([
  ['docs/results/accuracy.md', () => accuracyPage(compareAlgorithms())],
  ['docs/famous-limiters.md', famousPage],
  ...Array.from(drawings, ([path, svg]) => [path, () => svg] as [string, () => string]),
  [pathOf('nat'), () => scenarioPlot('nat')],
  [pathOf('scraper'), () => scenarioPlot('scraper')],
])('%s is what its program writes', async (path, write) => {
  expect(readFileSync(join(PROJECT, path), 'utf8')).toBe(await write());
});

test('docs/img contains only these drawings, and docs/scenarios one of each scenario', () => {
  const files = readdirSync(join(PROJECT, 'docs/img')).map((name) => `docs/img/${name}`);
  const measured = ['rates', 'slots'].map((what) => `docs/img/share-trees-${what}.svg`); // by a proof
  expect(files.sort()).toEqual([...drawings.keys(), ...measured].sort());
  for (const name of scenarioNames)
    expect(readFileSync(join(PROJECT, pathOf(name)), 'utf8')).toMatch(/<title>.*fixed_window/);
});

test('pages show every drawing, described by its title', () => {
  for (const [page, all] of [
    ['algorithms', plots],
    ['fair-shares', sharePlots],
  ] as const) {
    const text = readFileSync(join(PROJECT, `docs/${page}.md`), 'utf8');
    for (const [path, svg] of all)
      expect(text).toContain(`![${/<title>(.*)<\/title>/.exec(svg)?.[1]}](${path.replace('docs/', '')})`);
  }
});
