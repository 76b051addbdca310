import { parseArgs } from 'node:util';
import { createCounterKeys } from '../../src/engine/backends/key.ts';
import type { Descriptor } from '../../src/engine/rules/match/match.ts';
import { match } from '../../src/engine/rules/match/match.ts';
import type { RuleTree } from '../../src/engine/rules/match/tree.ts';
import { rulesFrom } from '../../test/helpers/rules.ts';
import { tableHead, tableRow } from '../tables/table.ts';

export const usage = `Usage: npm run proof -- match

Measures the time to find the rule of a descriptor and the key of its counter, in trees of different sizes and depths.
Takes about a minute.
`;

const ROUNDS = 300_000;
const LIMIT = 'rate_limit: {unit: hour, requests_per_unit: 100}';

const counterKeys = createCounterKeys('');

interface Case {
  readonly name: string;
  readonly rules: string;
  /** Descriptors to match, in turn. */
  readonly asked: readonly Descriptor[];
}

const createDescriptor = (...entries: readonly (readonly [string, string])[]): Descriptor => ({
  entries: entries.map(([key, value]) => ({ key, value })),
  requestLimit: undefined,
});

const wide = (count: number, value: (at: number) => string, asked: (at: number) => string): Omit<Case, 'name'> => ({
  rules: Array.from({ length: count }, (_, at) => `  - {key: path, value: "${value(at)}", ${LIMIT}}`).join('\n'),
  asked: Array.from({ length: 64 }, (_, at) => createDescriptor(['path', asked(Math.floor((at * count) / 64))])),
});

const deep = (depth: number): Omit<Case, 'name'> => ({
  rules: `  - ${Array.from({ length: depth - 1 }, (_, at) => `{key: k${at}, descriptors: [`).join('')}{key: k${depth - 1}, ${LIMIT}}${']}'.repeat(depth - 1)}`,
  asked: [createDescriptor(...Array.from({ length: depth }, (_, at) => [`k${at}`, 'value'] as const))],
});

const cases: readonly Case[] = [
  {
    name: '10 exact values',
    ...wide(
      10,
      (at) => `/${at}`,
      (at) => `/${at}`,
    ),
  },
  {
    name: '10,000 exact values',
    ...wide(
      10_000,
      (at) => `/${at}`,
      (at) => `/${at}`,
    ),
  },
  {
    name: '10 patterns',
    ...wide(
      10,
      (at) => `/${at}/*`,
      (at) => `/${at}/x`,
    ),
  },
  {
    name: '10,000 patterns',
    ...wide(
      10_000,
      (at) => `/${at}/*`,
      (at) => `/${at}/x`,
    ),
  },
  { name: '1 level', ...deep(1) },
  { name: '10 levels', ...deep(10) },
];

export async function run(args: readonly string[]): Promise<void> {
  parseArgs({ args });
  console.log(tableHead(['rules', 'µs a descriptor', 'of that, the counter’s name']));
  for (const { name, rules, asked } of cases) {
    const tree = rulesFrom(`domain: bench
descriptors:
${rules}
`);
    for (let warm = 0; warm < 3; warm++) measure(tree, asked, true);
    const [matching, whole] = [measure(tree, asked, false), measure(tree, asked, true)];
    console.log(tableRow([name, whole.toFixed(2), Math.max(whole - matching, 0).toFixed(2)]));
  }
}

/** Microseconds per descriptor. */
function measure(tree: RuleTree, asked: readonly Descriptor[], isNamed: boolean): number {
  let length = 0; // used below, so that the work is not optimized away
  const startedMs = performance.now();
  for (let round = 0; round < ROUNDS; round++) {
    const found = match(tree, 'bench', asked[round % asked.length] as Descriptor); // there is at least one
    if (found.kind !== 'limited') throw new Error(`expected a rule with a limit, got ${found.kind}`);
    for (const { limit } of found.limits) length += isNamed ? counterKeys(limit, 'bench', found.entries).length : 1;
  }
  const tookMs = performance.now() - startedMs;
  if (length === 0) throw new Error('nothing was counted');
  return (tookMs * 1000) / ROUNDS;
}
