import { parseArgs } from 'node:util';
import { match } from '../../src/engine/rules/match/match.ts';
import type { RuleTree } from '../../src/engine/rules/match/tree.ts';
import { rulesFrom } from '../../test/helpers/rules.ts';
import { tableHead, tableRow } from '../tables/table.ts';

export const usage = `Usage: npm run proof -- patterns

Compares the CPU time to find the rule of a value among 1 and 10,000 patterns, and that of ordinary and hostile values of
16 KB. All cases take turns in one run; the ratios matter, not the times. Takes about a minute.
`;

const COUNT = 10_000;
const LONG = 16_000;
const ROUNDS = 40;
const PATH =
  '/api/users/1234567/orders/98765/lines/4711/positions/2/some/more/characters/of/this/path?x=1234567890'.slice(0, 100);
const range = (count: number): readonly number[] => Array.from({ length: count }, (_, at) => at);

interface Case {
  readonly rules: RuleTree;
  readonly value: string;
  /** Searches in a round. */
  readonly times: number;
}

function createRules(count: number, patternOf: (at: number) => string): RuleTree {
  const lines = range(count).map(
    (at) => `  - {key: path, value: "${patternOf(at)}", rate_limit: {unit: hour, requests_per_unit: 100}}`,
  );
  return rulesFrom(`domain: bench\ndescriptors:\n${lines.join('\n')}\n`);
}

const shapes: Readonly<Record<string, (at: number) => string>> = {
  '`*/v{i}/*`': (at) => `*/v${at}/*`,
  '`/api/*/v{i}/*`': (at) => `/api/*/v${at}/*`,
  '`/api/v{i}/*`': (at) => `/api/v${at}/*`,
  '`*.{i}.example.com`': (at) => `*.${at}.example.com`,
};

const long = (text: string): string => text.repeat(Math.ceil(LONG / text.length)).slice(0, LONG);
const allParts = range(LONG / 6)
  .map((at) => `/v${COUNT - 1 - at}`)
  .join('')
  .slice(0, LONG - 1);
const longValues: Readonly<Record<string, string>> = {
  'one letter': long('a'),
  'a path': long('/api/users/1234567'),
  'almost a match: `/v/v`': long('/v'),
  'the beginnings of all patterns': long(allParts),
  'thousands of matching parts, the last pattern first': `${allParts}/`,
};

export async function run(args: readonly string[]): Promise<void> {
  parseArgs({ args });
  console.log(tableHead(['a value of 100 bytes, patterns', '1 pattern, ns', '10,000 patterns, ns', 'ratio']));
  for (const [name, patternOf] of Object.entries(shapes)) {
    const [one = 0, many = 0] = measure(
      [1, COUNT].map((count) => ({ rules: createRules(count, patternOf), value: PATH, times: 2_000 })),
    );
    console.log(tableRow([name, one.toFixed(0), many.toFixed(0), (many / one).toFixed(1)]));
  }
  const values = Object.entries(longValues);
  for (const count of [5, 1_000, COUNT]) {
    console.log(`\n${tableHead([`${LONG} characters, ${count} patterns \`*/v{i}/*\``, 'µs', 'ratio to the first'])}`);
    const rules = createRules(count, (at) => `*/v${at}/*`);
    const tookNs = measure(values.map(([, value]) => ({ rules, value, times: 10 })));
    for (const [at, [name]] of values.entries()) {
      const ns = tookNs[at] ?? 0;
      console.log(tableRow([name, (ns / 1_000).toFixed(0), (ns / (tookNs[0] ?? 1)).toFixed(1)]));
    }
  }
}

/** The median CPU time of a search in nanoseconds, for each case; the cases take turns. */
function measure(cases: readonly Case[]): readonly number[] {
  const tookNs = cases.map((): number[] => []);
  for (let round = -ROUNDS / 4; round < ROUNDS; round++) {
    for (const [at, one] of cases.entries()) {
      const ns = searchNs(one);
      if (round >= 0) tookNs[at]?.push(ns);
    }
  }
  return tookNs.map((all) => all.sort((one, other) => one - other)[ROUNDS / 2] ?? 0);
}

function searchNs({ rules, value, times }: Case): number {
  const descriptor = { entries: [{ key: 'path', value }], requestLimit: undefined };
  const started = process.cpuUsage();
  for (let left = times; left > 0; left--) match(rules, 'bench', descriptor);
  const { user, system } = process.cpuUsage(started);
  return ((user + system) * 1_000) / times;
}
