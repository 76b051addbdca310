import type { Rule, RuleTree } from '../../src/engine/rules/match/tree.ts';
import { formatProblem } from '../../src/engine/rules/read/problem.ts';
import { type LoadedRules, type LoadOptions, loadRules } from '../../src/engine/rules/reload/load.ts';

/** Loads the text of a rule file, `rules.yaml`. */
export const loadText = (text: string, options: Partial<LoadOptions> = {}): LoadedRules =>
  loadRules([{ path: 'rules.yaml', name: 'rules.yaml', text }], { mergeDomains: false, ...options });

/** The rules of files with these texts, which must be valid. */
export function rulesFrom(...yaml: readonly string[]): RuleTree {
  const files = yaml.map((text, at) => ({ path: `rules${at || ''}.yaml`, name: `rules${at || ''}.yaml`, text }));
  const loaded = loadRules(files, { mergeDomains: false });
  if (!loaded.ok) throw new Error(loaded.problems.map(formatProblem).join('\n'));
  return loaded.rules;
}

/** A plain rule, by default with the path `d.k`; `changes` override its properties. */
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
