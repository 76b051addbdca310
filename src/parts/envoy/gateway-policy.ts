import { dump } from 'js-yaml';
import { printable } from '../../base/printable.ts';
import { algorithmFor, namedAlgorithm } from '../../engine/holds/limits.ts';
import type { Matcher } from '../../engine/rules/match/matcher.ts';
import type { Node, PlacedNode, Rule, RuleLimit, RuleTree } from '../../engine/rules/match/tree.ts';
import { conditionKeys, isConstant, rulesBelow } from './shapes.ts';
import { headerlessKeys, headerName, patternRegex } from './whole-envoy.ts';

/** The condition of a rule node on an entry. For any value, each value has its own limit. */
type Condition = PlacedNode;

/** A `RateLimitSelectCondition` of Envoy Gateway. */
interface Selector {
  readonly headers?: readonly HeaderMatch[];
  readonly sourceCIDR?: { readonly type: 'Exact' | 'Distinct'; readonly value: string };
}
interface PolicyRule {
  readonly clientSelectors?: readonly Selector[];
  readonly limit: { readonly requests: number; readonly unit: string };
  readonly shadowMode?: boolean;
}
interface HeaderMatch {
  readonly type: 'Exact' | 'RegularExpression' | 'Distinct';
  readonly name: string;
  readonly value?: string;
}

/** A rule, or one of its limits, cannot be expressed in a policy. */
class NotExpressible extends Error {}

/** Maximum number of rules in a policy. */
const MAX_RULES = 128;
const UNITS: ReadonlySet<string> = new Set(['SECOND', 'MINUTE', 'HOUR', 'DAY', 'WEEK', 'MONTH', 'YEAR']);
/** Networks with all addresses: a selector with the first one does not select the other's. */
const EVERY_ADDRESS = ['0.0.0.0/0', '::/0'] as const;

/**
 * A BackendTrafficPolicy with the limits of a domain, as YAML. Envoy Gateway derives descriptors and rules from it, and
 * serves the rules to Weir, so it replaces the rule file. Comments list the limits that a policy cannot express.
 *
 * @see https://gateway.envoyproxy.io/docs/api/extension_types/#backendtrafficpolicy
 */
export function gatewayPolicy(rules: RuleTree, domain: string): string {
  const notes: string[] = [];
  const limits: PolicyRule[] = [];
  const add = ({ path, limits: own, unlimited, schedule }: Rule, conditions: readonly Condition[]): void => {
    const attempt = <T>(translate: () => T): T | undefined => {
      try {
        return translate();
      } catch (error) {
        if (!(error instanceof NotExpressible)) throw error;
        notes.push(`${path} is left out: ${error.message}`);
        return undefined;
      }
    };
    if (unlimited) notes.push(`${path} is left out: every rule of a policy needs a limit`);
    if (schedule) notes.push(`${path} has the same limits at all times; restore active or schedule with an overlay`);
    for (const limit of own.filter(({ times }, at) => !times || times.of === at)) {
      for (const selector of attempt(() => buildSelectors(conditions)) ?? [])
        attempt(() => limits.push(buildRule(selector, limit)));
      if (!algorithmFor(limit.limit).windows)
        notes.push(`${path} becomes a fixed window; restore ${namedAlgorithm(limit.limit)} with an overlay`);
    }
  };
  const root = rules.domains.get(domain)?.root;
  if (rules.domains.get(domain)?.requirements)
    notes.push('require is left out: no rule of a policy selects what is missing');
  if (root) for (const { rule, nodes } of rulesBelow(root, 'parents')) add(rule, nodes);
  notes.push(...conflicts(limits));
  if (limits.length > MAX_RULES)
    notes.push(`A policy may have at most ${MAX_RULES} rules, this one has ${limits.length}: split it.`);
  const policy = {
    apiVersion: 'gateway.envoyproxy.io/v1alpha1',
    kind: 'BackendTrafficPolicy',
    metadata: { name: 'weir' },
    spec: {
      targetRefs: [{ group: 'gateway.networking.k8s.io', kind: 'HTTPRoute', name: 'your-route' }],
      rateLimit: { type: 'Global', global: { rules: limits } },
    },
  };
  return notes.map((note) => `# ${printable(note)}\n`).join('') + dump(policy, { lineWidth: -1 });
}

/** Rules that Envoy Gateway 1.9 translates to something else than it seems. */
function conflicts(rules: readonly PolicyRule[]): readonly string[] {
  const selectors = rules.flatMap(({ clientSelectors = [] }) => clientSelectors);
  const onlySources = selectors.flatMap(({ headers, sourceCIDR }) => (sourceCIDR && !headers ? [sourceCIDR] : []));
  const networks = new Set(onlySources.map(({ value }) => value));
  const paths = selectors.flatMap(({ headers = [] }) =>
    headers.filter(({ type, name }) => type === 'Exact' && name === ':path'),
  );
  return [
    ...[...networks].flatMap((network) => {
      const types = onlySources.filter(({ value }) => value === network).map(({ type }) => type);
      if (types.length === 1) return [];
      return new Set(types).size > 1
        ? [
            `Distinct and Exact of ${network} have one key in the rules of Envoy Gateway, which no service accepts: keep one.`,
          ]
        : [`Envoy Gateway merges the ${types.length} limits of ${network} to one, which counts twice: keep one.`];
    }),
    ...[...new Set(paths.map(({ value }) => value))].map(
      (path) => `The path ${path} is compared with its query: requests with another query are not counted.`,
    ),
  ];
}

/** The selectors that together express the conditions. @throws NotExpressible */
function buildSelectors(conditions: readonly Condition[]): readonly Selector[] {
  const headers: HeaderMatch[] = [];
  let sources: readonly Selector['sourceCIDR'][] = [undefined];
  for (const { key: named, value, node } of conditions) {
    const key = named.text;
    if (named.kind !== 'exact') throw new NotExpressible('a pattern cannot name a header');
    if (key === 'remote_address' || key === 'masked_remote_address') sources = sourceSelectors(key, value, node);
    else if (headerlessKeys.has(key) || isConstant(key) || conditionKeys.has(key))
      throw new NotExpressible(`\`${key}\` has no selector; a policy applies to the routes that it targets`);
    else headers.push(headerMatch(key, value));
  }
  return sources.map((sourceCIDR) => ({ ...(headers.length > 0 && { headers }), ...(sourceCIDR && { sourceCIDR }) }));
}

function sourceSelectors(
  key: string,
  { kind, text }: Matcher,
  { sharedValue }: Node,
): readonly NonNullable<Selector['sourceCIDR']>[] {
  if (kind === 'any_value') return EVERY_ADDRESS.map((value) => ({ type: 'Distinct', value }));
  if (kind === 'addresses' && !text.includes(' ')) {
    const block = text.includes('/') ? text : `${text}/${text.includes(':') ? 128 : 32}`;
    return [{ type: sharedValue === undefined ? 'Distinct' : 'Exact', value: block }];
  }
  if (kind !== 'exact') throw new NotExpressible(`the addresses '${text}' are not one network`);
  if (key === 'masked_remote_address') return [{ type: 'Exact', value: text }];
  if (text.includes('/')) throw new NotExpressible(`'${text}' is no address: write a network under addresses`);
  return [{ type: 'Exact', value: `${text}/${text.includes(':') ? 128 : 32}` }];
}

function headerMatch(key: string, { kind, text }: Matcher): HeaderMatch {
  const name = headerName(key);
  if (kind === 'any_value') return { type: 'Distinct', name };
  if (kind === 'exact') return { type: 'Exact', name, value: text };
  if (kind === 'addresses') throw new NotExpressible(`no header matcher selects '${text}'`);
  return { type: 'RegularExpression', name, value: patternRegex(text) };
}

/** @throws NotExpressible */
function buildRule(selector: Selector, { limit, label, policy }: RuleLimit): PolicyRule {
  return {
    ...(Object.keys(selector).length > 0 && { clientSelectors: [selector] }),
    limit: { requests: limit.requestsPerUnit, unit: policyUnit(label) },
    ...(policy.shadow && { shadowMode: true }),
  };
}

/** @throws NotExpressible */
function policyUnit({ unit, unitMultiplier }: RuleLimit['label']): string {
  if (unitMultiplier !== 1 || !UNITS.has(unit))
    throw new NotExpressible('its window is not one second, minute, hour, day, week, month or year');
  return `${unit[0]}${unit.slice(1).toLowerCase()}`;
}
