import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type LoadOptions, loadRules } from '../../src/rules/load.ts';
import { formatProblem } from '../../src/rules/problem.ts';
import type { Rule, RuleTree } from '../../src/rules/tree.ts';
import type { AnswerChecker } from '../../src/xds/book.ts';
import { checkResources } from '../../src/xds/resources.ts';

/** The rules of a file with this text, which must be right. */
export function rulesFrom(yaml: string): RuleTree {
  const folder = mkdtempSync(join(tmpdir(), 'rules-'));
  try {
    const path = join(folder, 'rules.yaml');
    writeFileSync(path, yaml);
    const loaded = loadRules([{ path, name: 'rules.yaml' }], { mergeDomains: false });
    if (!loaded.ok) throw new Error(loaded.problems.map(formatProblem).join('\n'));
    return loaded.rules;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** An ordinary rule on an ordinary path, `d.k` unless another is given: but for the changes. */
export function ruleOf(changes: Partial<Rule> = {}): Rule {
  const { path = 'd.k' } = changes;
  const plain = {
    domain: path.split('.')[0] ?? '',
    place: undefined,
    limits: [],
    unlimited: false,
    shadow: false,
    quota: false,
    replaces: [],
    metadata: undefined,
  };
  return { path, levels: path.split('.').slice(1), named: 'by_rule', ...plain, ...changes };
}

/** Checks a control plane's answers as the thread of the built service does, in this one: threads run no TypeScript. */
export const answerChecker = (options: LoadOptions): AnswerChecker => ({
  do: async (answer, overlay) => checkResources(answer, { ...options, overlay }),
  close: () => {},
});
