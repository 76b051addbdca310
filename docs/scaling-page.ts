import { readFileSync } from 'node:fs';
import { measuredCosts } from '../proof/bench/scaling/costs.ts';
import { defaultPlanning, largeLoad } from '../proof/bench/scaling/load.ts';
import {
  costsTable,
  measuredTable,
  partsTable,
  simulationTable,
  sizesTable,
  stepsTable,
} from '../proof/bench/scaling/tables.ts';

const PAGE = new URL('scaling.md', import.meta.url);

/** docs/scaling.md with the tables that `npm run proof -- scaling --simulate` prints. */
export async function scalingPage(): Promise<string> {
  const costs = measuredCosts();
  const tables: ReadonlyMap<string, string> = new Map([
    ['costs', costsTable(costs)],
    ['parts', partsTable(largeLoad, costs, defaultPlanning)],
    ['sizes', sizesTable(largeLoad, costs, defaultPlanning)],
    ['steps', stepsTable(largeLoad, costs, defaultPlanning)],
    ['simulation', await simulationTable()],
    ['measured', measuredTable(costs)],
  ]);
  let page = readFileSync(PAGE, 'utf8');
  for (const [name, table] of tables) page = withTable(page, name, table);
  return page;
}

function withTable(page: string, name: string, table: string): string {
  const [begin, end] = [`<!-- ${name}: begin -->`, `<!-- ${name}: end -->`];
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`expected ${begin} and ${end} in docs/scaling.md`);
  return `${page.slice(0, from + begin.length)}\n\n${table}\n\n${page.slice(to)}`;
}
