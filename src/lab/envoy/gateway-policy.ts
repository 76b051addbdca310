import { dump } from 'js-yaml';
import { hasWildcard } from '../../engine/rules/match/pattern.ts';
import type { Level, Node, Rule, RuleLimit, RuleTree } from '../../engine/rules/match/tree.ts';
import { headerOf } from './whole-envoy.ts';

/** The condition of a rule node on an entry: its key and value; undefined: any value, each with its own limit. */
interface Condition {
  readonly key: string;
  readonly value: string | undefined;
}

/** A `RateLimitSelectCondition` of Envoy Gateway. */
interface Selector {
  readonly headers?: readonly HeaderMatch[];
  readonly sourceCIDR?: { readonly type: 'Exact' | 'Distinct'; readonly value: string };
}
interface HeaderMatch {
  readonly type: 'Exact' | 'RegularExpression' | 'Distinct';
  readonly name: string;
  readonly value?: string;
}

/** A rule, or one of its limits, cannot be expressed in a policy. */
class NotExpressible extends Error {}

/** The most rules that a policy may have. */
const MAX_RULES = 128;
const UNITS: ReadonlySet<string> = new Set(['SECOND', 'MINUTE', 'HOUR', 'DAY', 'WEEK', 'MONTH', 'YEAR']);
const EVERY_ADDRESS = '0.0.0.0/0';

/**
 * A BackendTrafficPolicy with the limits of a domain, as YAML. Envoy Gateway derives descriptors and rules from it, and
 * serves the rules to Weir, so it replaces the rule file. Comments list the limits that a policy cannot express.
 *
 * @see https://gateway.envoyproxy.io/docs/api/extension_types/#backendtrafficpolicy
 */
export function gatewayPolicy(rules: RuleTree, domain: string): string {
  const notes: string[] = [];
  const limits: object[] = [];
  const add = ({ path, limits: own, unlimited, schedule }: Rule, conditions: readonly Condition[]): void => {
    const attempt = (translate: () => object): void => {
      try {
        limits.push(translate());
      } catch (error) {
        if (!(error instanceof NotExpressible)) throw error;
        notes.push(`${path} is left out: ${error.message}`);
      }
    };
    if (unlimited) notes.push(`${path} is left out: every rule of a policy needs a limit`);
    if (schedule) notes.push(`${path} has the same limits at all times; restore active or schedule with an overlay`);
    for (const limit of own.filter(({ times }, at) => !times || times.of === at)) {
      attempt(() => ruleOf(selectorOf(conditions), limit));
      const { algorithm } = limit.limit;
      if (algorithm !== 'fixed_window')
        notes.push(`${path} becomes a fixed window; restore ${algorithm} with an overlay`);
    }
  };
  const root = rules.domains.get(domain)?.root;
  if (root) visit(root, [], add);
  if (limits.length > MAX_RULES)
    notes.push(`A policy may have ${MAX_RULES} rules, this one has ${limits.length}: split it.`);
  const policy = {
    apiVersion: 'gateway.envoyproxy.io/v1alpha1',
    kind: 'BackendTrafficPolicy',
    metadata: { name: 'weir' },
    spec: {
      targetRefs: [{ group: 'gateway.networking.k8s.io', kind: 'HTTPRoute', name: 'your-route' }],
      rateLimit: { type: 'Global', global: { rules: limits } },
    },
  };
  return notes.map((note) => `# ${note}\n`).join('') + dump(policy, { lineWidth: -1 });
}

function visit(
  level: Level,
  above: readonly Condition[],
  add: (rule: Rule, conditions: readonly Condition[]) => void,
): void {
  const enter = (node: Node, condition: Condition): void => {
    const conditions = [...above, condition];
    if (node.rule) add(node.rule, conditions);
    if (node.children) visit(node.children, conditions, add);
  };
  for (const [key, { byValue, wildcards, anyValue }] of level.byKey) {
    for (const [value, node] of byValue) if (!hasWildcard(value)) enter(node, { key, value }); // patterns come below
    for (const { key: pattern, value, node } of wildcards.all)
      if (pattern.text === key) enter(node, { key, value: value?.text });
    if (anyValue) enter(anyValue, { key, value: undefined });
  }
  for (const { key, value, node } of level.keyWildcards.all)
    if (hasWildcard(key.text)) enter(node, { key: key.text, value: value?.text });
}

/** @throws NotExpressible */
function selectorOf(conditions: readonly Condition[]): Selector {
  const headers: HeaderMatch[] = [];
  let sourceCIDR: Selector['sourceCIDR'];
  for (const { key, value } of conditions) {
    if (hasWildcard(key)) throw new NotExpressible('a pattern cannot name a header');
    if (key === 'remote_address' || key === 'masked_remote_address') sourceCIDR = sourceOf(key, value);
    else if (key === 'source_cluster' || key === 'destination_cluster' || key === 'generic_key')
      throw new NotExpressible(`\`${key}\` has no selector; a policy applies to the routes that it targets`);
    else headers.push(headerMatch(key, value));
  }
  return { ...(headers.length > 0 && { headers }), ...(sourceCIDR && { sourceCIDR }) };
}

function sourceOf(key: string, value: string | undefined): Selector['sourceCIDR'] {
  if (value === undefined) return { type: 'Distinct', value: EVERY_ADDRESS };
  if (hasWildcard(value)) throw new NotExpressible(`the addresses '${value}' are not a network`);
  const bits = value.includes(':') ? 128 : 32;
  return { type: 'Exact', value: key === 'remote_address' ? `${value}/${bits}` : value };
}

function headerMatch(key: string, value: string | undefined): HeaderMatch {
  const name = headerOf(key);
  if (value === undefined) return { type: 'Distinct', name };
  if (!hasWildcard(value)) return { type: 'Exact', name, value };
  return { type: 'RegularExpression', name, value: wildcardRegex(value) };
}

/** A pattern in rules as a regular expression. */
export const wildcardRegex = (value: string): string => value.split('*').map(escaped).join('.*');

const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');

/** @throws NotExpressible */
function ruleOf(selector: Selector, { limit, label, policy }: RuleLimit): object {
  return {
    ...(Object.keys(selector).length > 0 && { clientSelectors: [selector] }),
    limit: { requests: limit.requestsPerUnit, unit: unitOf(label) },
    ...(policy.shadow && { shadowMode: true }),
  };
}

/** @throws NotExpressible */
function unitOf({ unit, unitMultiplier }: RuleLimit['label']): string {
  if (unitMultiplier !== 1 || !UNITS.has(unit))
    throw new NotExpressible('its window is not one second, minute, hour, day, week, month or year');
  return `${unit[0]}${unit.slice(1).toLowerCase()}`;
}
