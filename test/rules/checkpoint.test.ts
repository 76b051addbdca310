import { atCheckpoints } from '../../src/rules/checkpoint.ts';
import { compile } from '../../src/rules/compile.ts';
import { checkFit } from '../../src/rules/fit.ts';
import { lint } from '../../src/rules/lint.ts';
import { layOver } from '../../src/rules/overlay.ts';
import { pack } from '../../src/rules/packed.ts';
import { Problems } from '../../src/rules/problem.ts';
import { readText } from '../../src/rules/read.ts';
import { findReload } from '../../src/rules/reload.ts';
import { summarize } from '../../src/rules/rule-summary.ts';
import { parseYaml, YamlError } from '../../src/rules/yaml.ts';

const RULES = 500;

const rules = (limit: number, count = RULES): string =>
  ['domain: d', 'descriptors:']
    .concat(
      Array.from({ length: count }, (_, at) => [
        `  - key: k${at % 10}`,
        `    value: v${at}`,
        `    rate_limit: { unit: hour, requests_per_unit: ${limit} }`,
      ]).flat(),
    )
    .join('\n');

const blocksOf = (text: string) => readText('rules.yaml', text, new Problems());
const packedOf = (text: string) => pack(blocksOf(text), false);
const summariesOf = (text: string) => {
  const [domain] = packedOf(text);
  return domain ? summarize(domain, undefined) : new Map();
};
const store = { name: 'Redis', atomic: 'request', without: [], leases: true, spend: 'each' } as const;

/** The number of checkpoints that the work reaches. */
function checkpointsOf(work: () => unknown): number {
  let checkpoints = 0;
  atCheckpoints(() => checkpoints++);
  try {
    work();
  } finally {
    atCheckpoints(undefined);
  }
  return checkpoints;
}

const text = rules(1);
const blocks = blocksOf(text);
const [packed] = packedOf(text);
const [before, after] = [summariesOf(text), summariesOf(rules(2))];

test.each<readonly [string, () => unknown]>([
  ['parsing', () => parseYaml(text)],
  ['reading', () => blocksOf(text)],
  ['an overlay', () => layOver(blocks, [{ name: 'over.yaml', text: rules(2, 1) }], new Problems())],
  ['compiling', () => compile(blocks, false, new Problems())],
  ['what the store can do', () => checkFit(blocks, store, new Problems())],
  ['warnings', () => lint(blocks)],
  ['packing', () => pack(blocks, false)],
  ['reading what was packed', () => packed && summarize(packed, undefined)],
  ['comparing', () => findReload(before, after)],
])('%s has a checkpoint for each rule', (_, work) => {
  expect(checkpointsOf(work)).toBeGreaterThanOrEqual(RULES);
});

test('the YAML parser has a checkpoint for each value, before its events are read', () => {
  const values = 3 * RULES;
  const parse = () => expect(() => parseYaml(`${text}\n]`)).toThrow(YamlError);
  expect(checkpointsOf(parse)).toBeGreaterThan(values);
});
