import { type Descriptor, type Entry, match } from './match.ts';
import { describeAllOverlaid } from './overlaid.ts';
import { formatLine, shown } from './problem.ts';
import type { Level, Node, Rule, RuleTree } from './tree.ts';

/** Why a descriptor meets the rule that it meets, or none. */
export type Explanation =
  | { readonly kind: 'rule'; readonly rule: Rule }
  /** The request brought its limit along. */
  | { readonly kind: 'override' }
  | { readonly kind: 'no_domain'; readonly domains: readonly string[] }
  /** No node of its level matches the entry. `isDeeper`: there is no level, the rules end above it. */
  | {
      readonly kind: 'no_match';
      readonly entry: Entry;
      /** The domain and the nodes down to the level. */
      readonly above: string;
      readonly isDeeper: boolean;
      /** The keys of the level. */
      readonly keys: readonly string[];
    }
  /** The node where it ends has no limit. */
  | { readonly kind: 'no_limit'; readonly path: string; readonly isInner: boolean };

/** Names that are listed. */
const MAX_LISTED = 10;

/** Explains which rule a descriptor meets, or where its search ends without one. */
export function explain(rules: RuleTree, domainName: string, { entries, override }: Descriptor): Explanation {
  const domain = rules.domains.get(domainName);
  if (!domain) return { kind: 'no_domain', domains: [...rules.domains.keys()].slice(0, MAX_LISTED) };
  if (override) return { kind: 'override' };
  let path = domainName;
  let last: Node | undefined;
  let missed: { readonly entry: Entry; readonly level: Level | undefined } | undefined;
  const found = match(
    rules,
    domainName,
    { entries, override },
    {
      onLevel(entry, level, node) {
        last = node;
        if (node) path = `${path}.${node.composite}`;
        else missed = { entry, level };
      },
    },
  );
  if ('rule' in found) return { kind: 'rule', rule: found.rule };
  if (!missed) return { kind: 'no_limit', path, isInner: (last ? last.children : domain.root) !== undefined };
  const { entry, level } = missed;
  const keys = level ? [...level.byKey.keys()].slice(0, MAX_LISTED) : [];
  return { kind: 'no_match', entry, above: path, isDeeper: level === undefined, keys };
}

/** `demo.user (rules.yaml:3)`, with an overlay `demo.user (rules.yaml:3, overlaid: burst (overlay.yaml:7))`. */
export function describeRulePlace(rule: Pick<Rule, 'path' | 'place' | 'overlaid'>): string {
  const { path, place } = rule;
  const places = [...(place ? [formatLine(place)] : []), ...describeAllOverlaid(rule)];
  return `${shown(path)}${places.length === 0 ? '' : ` (${places.join(', ')})`}`;
}

/** One line for people. */
export function describeExplanation(explanation: Explanation, domain: string): string {
  switch (explanation.kind) {
    case 'rule':
      return `rule ${describeRulePlace(explanation.rule)}`;
    case 'override':
      return 'the limit of the request itself';
    case 'no_domain':
      return `unknown domain '${shown(domain)}'; there are rules for ${listed(explanation.domains)}`;
    case 'no_match': {
      const { entry, above, isDeeper, keys } = explanation;
      const entryText = shown(entry.value === '' ? entry.key : `${entry.key}=${entry.value}`);
      if (isDeeper) return `the descriptor is too long: the rules end at ${shown(above)}, above ${entryText}`;
      return `no rule for ${entryText} below ${shown(above)}, which has the keys ${listed(keys)}`;
    }
    case 'no_limit': {
      const why = explanation.isInner ? ', only nodes below it' : '';
      return `the rules for ${shown(explanation.path)} have no limit${why}`;
    }
  }
}

const listed = (names: readonly string[]): string => (names.length === 0 ? 'none' : names.map(short).join(', '));

/** Of a listed name so much is shown: a short question must not have a very long answer. */
const LISTED_CHARACTERS = 40;

const short = (name: string): string =>
  name.length <= LISTED_CHARACTERS ? name : `${name.slice(0, LISTED_CHARACTERS)}…`;
