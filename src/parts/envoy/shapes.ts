import { limitsInFlight, measures } from '../../engine/holds/limits.ts';
import { nodesFor, placedNodes } from '../../engine/rules/match/level.ts';
import { findNode } from '../../engine/rules/match/match.ts';
import type { Level, PlacedNode, Rule, RuleTree } from '../../engine/rules/match/tree.ts';
import type { Requirement } from '../../engine/rules/read/node-source.ts';
import { type EntryShape, everyRequest } from '../lab/mapping/actions.ts';

/** The entries of a descriptor that Envoy can send. */
export type DescriptorShape = readonly EntryShape[];

/** The shapes of one domain, and the rules whose keys no configuration can name. */
export interface ExpectedShapes {
  readonly shapes: readonly DescriptorShape[];
  /** Shapes that acquire a slot, and must be sent again when the stream ends. */
  readonly slots: readonly DescriptorShape[];
  /** Those of them whose releases state the outcome of the request. */
  readonly adaptive: readonly DescriptorShape[];
  /** Shapes of which only responses count (`count_when`), whose status must be sent when the stream ends. */
  readonly reports: readonly DescriptorShape[];
  /** Paths of rules with entries that need actions of an operator, and of those below; and such requirements. */
  readonly unknown: readonly string[];
  /** Shapes that report a request's usage, which is known only when its stream ends (`not_counted: commit`). */
  readonly commits: readonly DescriptorShape[];
}

/** The descriptors that the rules of a domain expect, one for each path of keys to a rule. */
export function expectedShapes(rules: RuleTree, domain: string): ExpectedShapes {
  const found = new Map<string, DescriptorShape>();
  const slots = new Map<string, DescriptorShape>();
  const adaptive: DescriptorShape[] = [];
  const reports: DescriptorShape[] = [];
  const unknown: string[] = [];
  const commits: DescriptorShape[] = [];
  const add = (shape: DescriptorShape): void => void found.set(JSON.stringify(shape), shape);
  const walk = (level: Level, above: DescriptorShape): void => {
    const { required } = level;
    if (required) for (const shape of shapesForMissing(required.requirement, above)) add(shape);
    for (const { key, value, node } of placedNodes(level)) {
      if (required?.counts({ key: key.text, value: value.text })) continue;
      if (needsOwnAction({ key, value })) {
        if (node.rule) unknown.push(node.rule.path);
        if (node.children) for (const { rule } of rulesBelow(node.children, 'parents')) unknown.push(rule.path);
        continue;
      }
      const shape = [...above, { key: key.text, value: isConstant(key.text) ? value.text : undefined }];
      if (node.rule?.commitAt !== undefined) {
        commits.push(shape);
        continue;
      }
      if (node.rule) add(shape);
      if (node.rule && hasSlots(node.rule)) slots.set(JSON.stringify(shape), shape);
      if (node.rule?.limits.some(({ limit }) => measures(limit))) adaptive.push(shape);
      if (node.rule?.countWhen) reports.push(shape);
      if (node.children) walk(node.children, shape);
    }
  };
  const { root, requirements = [] } = rules.domains.get(domain) ?? {};
  if (root) walk(root, []);
  for (const key of new Set(requirements.flatMap(({ keys, per }) => [...keys.flat(), ...per])))
    if (conditionKeys.has(key)) unknown.push(`${domain}: require ${key}`);
  for (const key of new Set(requirements.flatMap(({ keys }) => keys.flat())))
    if (!conditionKeys.has(key) && ![...found.values()].some((shape) => shape.some((entry) => entry.key === key)))
      add([{ key, value: undefined }]);
  return { shapes: [...found.values()], slots: [...slots.values()], adaptive, reports, unknown, commits };
}

/** A descriptor that every request has: without any, Envoy does not call Weir. */
const EVERY_REQUEST: DescriptorShape = [everyRequest];

/** The shapes by which requests without required keys are known and counted. @param above  those of the level */
const shapesForMissing = ({ per }: Requirement, above: DescriptorShape): readonly DescriptorShape[] => {
  const always = above.length > 0 ? above : EVERY_REQUEST;
  return [always, ...per.filter((key) => !conditionKeys.has(key)).map((key) => [...always, { key, value: undefined }])];
};

/** Whether a requirement of a domain needs descriptors of this shape, though they match no rule. */
export function servesRequirement(rules: RuleTree, domain: string, shape: DescriptorShape): boolean {
  const { requirements = [] } = rules.domains.get(domain) ?? {};
  if (requirements.length === 0) return false;
  if (shape.every(({ value }) => value !== undefined)) return true; // of every request
  const keys = new Set(requirements.flatMap((one) => [...one.keys.flat(), ...one.per]));
  if (shape.some(({ key }) => keys.has(key))) return true;
  const text = JSON.stringify(shape);
  return expectedShapes(rules, domain).shapes.some((one) => JSON.stringify(one) === text);
}

/** Whether a descriptor with these entries can have an expected shape. */
export const isShapeOf = (expected: DescriptorShape, sent: DescriptorShape): boolean =>
  expected.length === sent.length &&
  expected.every(({ key, value }, at) => {
    const found = sent[at];
    return found?.key === key && (value === undefined || found.value === undefined || found.value === value);
  });

/** Whether requests of a rule acquire slots. */
const hasSlots = ({ limits }: Pick<Rule, 'limits'>): boolean => limits.some(({ limit }) => limitsInFlight(limit));

/** Shortest ttl of a slot in a domain; undefined without slots. */
export function minTtlMs({ rules }: RuleTree, domain: string): number | undefined {
  const ttls = [...rules]
    .filter((rule) => rule.domain === domain)
    .flatMap(({ limits }) => limits.flatMap(({ limit }) => (limitsInFlight(limit) ? [limit.windowMs] : [])));
  return ttls.length === 0 ? undefined : ttls.reduce((one, other) => Math.min(one, other));
}

/** The longest time for which rules hold requests; 0 if they hold none. */
export function longestDelayMs(rules: Iterable<Pick<Rule, 'limits'>>): number {
  const limits = [...rules].flatMap((rule) => rule.limits);
  return Math.max(0, ...limits.flatMap(({ limit }) => ('maxDelayMs' in limit ? [limit.maxDelayMs] : [])));
}

/** Rules with the nodes on their paths, except for what counts missing keys. @param first  on each path */
export function* rulesBelow(
  level: Level,
  first: 'parents' | 'children',
  above: readonly PlacedNode[] = [],
): Iterable<{ readonly rule: Rule; readonly nodes: readonly PlacedNode[] }> {
  for (const placed of placedNodes(level)) {
    const { key, value, node } = placed;
    if (level.required?.counts({ key: key.text, value: value.text })) continue;
    const nodes = [...above, placed];
    const own = node.rule ? [{ rule: node.rule, nodes }] : [];
    if (first === 'parents') yield* own;
    if (node.children) yield* rulesBelow(node.children, first, nodes);
    if (first === 'children') yield* own;
  }
}

/** Keys whose values a route sets, not a request. */
export const isConstant = (key: string): boolean => key === 'generic_key';

/** Default keys of actions with conditions on the request, of which rules say nothing. */
export const conditionKeys: ReadonlySet<string> = new Set(['header_match', 'query_match', 'remote_address_match']);

/** Whether rules do not determine the action that sends an entry: its key, its constant or its condition. */
export const needsOwnAction = ({ key, value }: Pick<PlacedNode, 'key' | 'value'>): boolean =>
  key.kind !== 'exact' || conditionKeys.has(key.text) || (isConstant(key.text) && value.kind !== 'exact');

/** Whether a descriptor of this shape matches a rule for some values of the entries that depend on the request. */
export function canMatch(rules: RuleTree, domain: string, shape: DescriptorShape): boolean {
  const root = rules.domains.get(domain)?.root;
  return root !== undefined && shape.length > 0 && reaches(root, shape);
}

function reaches(level: Level, [first, ...rest]: DescriptorShape): boolean {
  if (!first) return false;
  const { key, value } = first;
  const one = value === undefined ? undefined : findNode(level, { key, value });
  const nodes = value === undefined ? nodesFor(level, key) : one ? [one] : [];
  return nodes.some(({ rule, children }) =>
    rest.length === 0 ? rule !== undefined : children !== undefined && reaches(children, rest),
  );
}
