import { compile } from '../../../../src/engine/rules/compile/compile.ts';
import { checkFit } from '../../../../src/engine/rules/compile/fit.ts';
import { lint } from '../../../../src/engine/rules/compile/lint.ts';
import { pack } from '../../../../src/engine/rules/compile/packed.ts';
import { layOver } from '../../../../src/engine/rules/overlay/overlay.ts';
import { atCheckpoints } from '../../../../src/engine/rules/read/checkpoint.ts';
import { Problems } from '../../../../src/engine/rules/read/problem.ts';
import { readText } from '../../../../src/engine/rules/read/read.ts';
import { parseYaml, YamlError } from '../../../../src/engine/rules/read/yaml.ts';
import { findReload } from '../../../../src/engine/rules/reload/reload.ts';
import { summarize } from '../../../../src/engine/rules/reload/rule-summary.ts';

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
