import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { parseCount } from '../options.ts';
import { writePage } from '../tables/page.ts';
import { table, tableRow } from '../tables/table.ts';
import { drawTrees } from './draw.ts';
import { type MeasuredTree, measureTrees, type TreeRun } from './measure.ts';

const MAX_TREES = 100_000;

export const usage = `Usage: npm run proof -- fair-shares [--write] [options]

Plays random trees of children that share a limit, in memory and on Redis with two instances, and compares what each
child gets with a fluid model of max-min fairness. Prints the table of docs/results/fair-shares.md.

  --rates COUNT  trees of rates in memory (default: 1000)
  --slots COUNT  trees of slots in memory (default: 1000), each of which takes several times as long
  --redis COUNT  trees of each on Redis (default: 100)
  --write        writes the page, and its drawings in docs/img/
  --help         this text
`;

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rates: { type: 'string', default: '1000' },
      slots: { type: 'string', default: '1000' },
      redis: { type: 'string', default: '100' },
      write: { type: 'boolean', default: false },
    },
  });
  const runs: TreeRun[] = [];
  for await (const one of measureTrees({
    rates: parseCount('--rates', values.rates, MAX_TREES),
    slots: parseCount('--slots', values.slots, MAX_TREES),
    redis: parseCount('--redis', values.redis, MAX_TREES),
  })) {
    process.stdout.write(`${[tableRow(listRun(one)), ...listWrong(one)].join('\n')}\n`);
    runs.push(one);
  }
  if (!values.write) return;
  writePage('fair-shares.md', table(columns, 2, runs.map(listRun)));
  for (const { of, trees } of runs.filter(({ store }) => store === 'memory'))
    writeFileSync(new URL(`../../docs/img/share-trees-${of}.svg`, import.meta.url), drawTrees(of, trees));
}

const columns = [
  'shared',
  'store',
  'trees',
  'children',
  'off',
  'trees with one',
  'worst, in tolerances',
  'beyond the limit',
];

const isWrong = ({ children }: MeasuredTree): boolean => children.some(({ off }) => off > 1);

function listRun({ of, store, trees }: TreeRun): readonly (string | number)[] {
  const children = trees.flatMap((tree) => tree.children);
  const worst = Math.max(...children.map(({ off }) => off));
  const most = Math.max(0, ...trees.map(({ excess }) => excess));
  const off = children.filter((child) => child.off > 1).length;
  return [of, store, trees.length, children.length, off, trees.filter(isWrong).length, worst.toFixed(1), most];
}

/** The children that are off. */
const listWrong = ({ of, store, trees }: TreeRun): readonly string[] =>
  trees.flatMap(({ seed, children }) =>
    children
      .filter(({ off }) => off > 1)
      .map(
        ({ asked, share, got, off }) =>
          `${of} in ${store}, seed ${seed}: asked ${asked}, share ${share.toFixed(1)}, got ${got.toFixed(1)}: ${off.toFixed(2)} tolerances`,
      ),
  );
