import { mergeObjects } from '../../base/json.ts';
import { NearestTexts } from '../../base/nearest.ts';
import { laidLimit } from '../../engine/rules/compile/laid-limit.ts';
import type { Block } from '../../engine/rules/read/block.ts';
import { compositeName, listLimits, nodeId, valueName } from '../../engine/rules/read/node-source.ts';
import type { Overlaid, OverlayFile } from '../../engine/rules/read/overlaid.ts';
import { formatLine, type Place, Problems, shown } from '../../engine/rules/read/problem.ts';
import { readText } from '../../engine/rules/read/read.ts';

/**
 * Lays overlay files over rules: nodes with the same domain and the same path of keys and values get the properties of
 * the overlay. Each of these properties has its place in the overlay's file. Errors in the overlay, and nodes that
 * match nothing, go to `problems`; an overlay that is invalid by itself is not applied.
 *
 * @param rules  are not modified
 */
export function layOver(
  rules: readonly Block<'file'>[],
  overlay: readonly OverlayFile[],
  problems: Problems,
): readonly Block<'file'>[] {
  const found = new Problems();
  const domains = readOverlay(overlay, found);
  problems.add(found.all);
  if (found.hasErrors) return rules;
  warnUnmatched(domains, rules, problems);
  return rules.map((file) => {
    const over = domains.get(file.values.domain ?? '');
    if (!over) return file;
    const { spend, nodes } = over;
    const { descriptors } = file.values;
    const values = { ...file.values, ...(descriptors && { descriptors: layLevel(descriptors, nodes, problems) }) };
    return spend ? layProperties({ ...file, values }, spend, ['spend']) : { ...file, values };
  });
}

const readOverlay = (overlay: readonly OverlayFile[], problems: Problems): OverlayDomains =>
  new Builder(problems).build(overlay.flatMap(({ name, text }) => readText(name, text, problems)));

const layLevel = (nodes: readonly Block<'node'>[], level: OverlayLevel, problems: Problems): readonly Block<'node'>[] =>
  nodes.map((node) => {
    const over = level.get(nodeId(node.values));
    return over ? layNode(node, over, problems) : node;
  });

function layNode(node: Block<'node'>, { parts, children }: OverlayNode, problems: Problems): Block<'node'> {
  const laid = parts.reduce((below, part) => layPart(below, part, problems), node);
  const { descriptors } = laid.values;
  if (!descriptors || children.size === 0) return laid;
  return { ...laid, values: { ...laid.values, descriptors: layLevel(descriptors, children, problems) } };
}

function layPart(node: Block<'node'>, part: Block<'node'>, problems: Problems): Block<'node'> {
  const keys = nodeKeys.filter((key) => part.values[key] !== undefined);
  const { metadata: below } = node.values;
  const { metadata: above } = part.values;
  const merged =
    above && below ? { ...part, values: { ...part.values, metadata: mergeObjects([above, below]) } } : part;
  return layLimits(layProperties(node, merged, keys), part, problems);
}

/** A block with some values of another one, which keep their places. */
function layProperties<B extends Block<'file'> | Block<'node'>>(block: B, over: B, keys: readonly string[]): B {
  if (keys.length === 0) return block;
  const given: Readonly<Record<string, unknown>> = over.values;
  const findPlace = (from: B, key?: string): Place => from.place(key as never); // both have the keys of the format
  return {
    ...block,
    values: { ...block.values, ...Object.fromEntries(keys.map((key) => [key, given[key]])) },
    place: (key?: string) => findPlace(key !== undefined && keys.includes(key) ? over : block, key),
    overlaid: [...(block.overlaid ?? []), ...keys.map((key) => overlaidAt(key, findPlace(over, key)))],
  };
}

const overlaidAt = (key: string, { file, line }: Place, limit?: number): Overlaid => ({
  key,
  file,
  ...(line !== undefined && { line }),
  ...(limit !== undefined && { limit }),
});

type LimitBlock = Block<'rate_limit'>;
type LimitKey = keyof LimitBlock['values'];

function layLimits(node: Block<'node'>, part: Block<'node'>, problems: Problems): Block<'node'> {
  const over = listLimits(part);
  if (over.length === 0) return node;
  const below = listLimits(node);
  if (part.values.rate_limit && below.length > 1) {
    const message = `this node has ${below.length} limits: write rate_limits, with an entry for each of them`;
    problems.error(part.place('rate_limit'), message);
    return node;
  }
  const limits: LimitBlock[] = [];
  const overlaid: Overlaid[] = [];
  for (let at = 0; at < Math.max(below.length, over.length); at++) {
    const [lower, upper] = [below[at], over[at]];
    const laid = upper && limitKeys(upper).length > 0 ? layLimit(lower, upper, problems) : undefined;
    const limit = laid ?? lower;
    if (limit) limits.push(limit);
    if (laid && upper)
      overlaid.push(...limitKeys(upper).map((key) => overlaidAt(key, upper.place(key), limits.length - 1)));
  }
  return overlaid.length === 0 ? node : withLimits(node, limits, [...(node.overlaid ?? []), ...overlaid]);
}

function withLimits(node: Block<'node'>, limits: readonly LimitBlock[], overlaid: readonly Overlaid[]): Block<'node'> {
  const { rate_limit: _, rate_limits: several, ...others } = node.values;
  const [first, second] = limits;
  const values = first && !second && !several ? { ...others, rate_limit: first } : { ...others, rate_limits: limits };
  return { ...node, values, overlaid };
}

// the reader drops keys that the format does not have
const limitKeys = ({ values }: LimitBlock): readonly LimitKey[] => Object.keys(values) as LimitKey[];

/** The limit with the overlay's changes; a new one if there was none and a rate is set; undefined if none changes. */
function layLimit(lower: LimitBlock | undefined, upper: LimitBlock, problems: Problems): LimitBlock | undefined {
  const idle = (message: string): undefined => problems.warn(upper.place(), message);
  if (!lower && upper.values.requests_per_unit === undefined && upper.values.budget === undefined)
    return idle('this overlays nothing: the rules have no such limit, and without requests_per_unit none is added');
  if (!lower) return upper;
  if (lower.values.unlimited)
    return idle(`this overlays nothing: the rule is unlimited (${formatLine(lower.place())})`);
  return laidLimit(lower, upper);
}

/** Maximum number of texts that one overlay is compared with, a fraction of a second. */
const MAX_COMPARED = 100_000;

/** Warns of overlay nodes that no rule matches, once for each topmost one, and names the nearest path. */
function warnUnmatched(domains: OverlayDomains, rules: readonly Block<'file'>[], problems: Problems): void {
  const nearest = new NearestTexts(MAX_COMPARED);
  for (const [domain, { place, nodes }] of domains) {
    const files = rules.filter(({ values }) => values.domain === domain);
    if (files.length > 0) {
      const level = files.flatMap(({ values }) => values.descriptors ?? []);
      const [first] = files;
      if (first) warnLevel(nodes, { path: domain, place: first.place(), nodes: level }, { nearest, problems });
      continue;
    }
    const [found] = nearest.find(domain, rules, ({ values }) => values.domain ?? '', 1);
    const hint = found ? `; the nearest is '${shown(found.values.domain ?? '')}' (${formatLine(found.place())})` : '';
    problems.warn(place, `no rules have the domain '${shown(domain)}'${hint}`);
  }
}

interface Parent {
  readonly path: string;
  readonly place: Place;
  /** Its children. */
  readonly nodes: readonly Block<'node'>[];
}

function warnLevel(
  level: OverlayLevel,
  parent: Parent,
  report: { readonly nearest: NearestTexts; readonly problems: Problems },
): void {
  if (level.size === 0) return;
  const { nodes } = parent;
  const byId = new Map(nodes.map((node) => [nodeId(node.values), node]));
  const named = nodes.map(({ values, place }) => ({ key: values.key ?? '', value: valueName(values), place }));
  for (const [id, over] of level) {
    const found = byId.get(id);
    const path = `${parent.path}.${compositeName(over)}`;
    if (found) {
      const below = { path, place: found.place(), nodes: found.values.descriptors ?? [] };
      warnLevel(over.children, below, report);
      continue;
    }
    const near = findNearest(report.nearest, over, named);
    const hint = near
      ? `; the nearest is '${shown(`${parent.path}.${compositeName(near)}`)}' (${describeEntry(near)}; ${formatLine(near.place())})`
      : nodes.length > 0
        ? '' // too much has been compared
        : `; the nearest is '${shown(parent.path)}' (${formatLine(parent.place)}), which has no descriptors`;
    const message = `no rule has the path '${shown(path)}' (${describeEntry(over)})${hint}`;
    report.problems.warn(over.place, message);
  }
}

interface Keyed {
  readonly key: string;
  readonly value: string;
}

/** The node with the nearest key and, among those with this key, the nearest value. */
function findNearest<N extends Keyed>(
  nearest: NearestTexts,
  { key, value }: Keyed,
  nodes: readonly N[],
): N | undefined {
  const [found] = nearest.find(key, nodes, (node) => node.key, 1);
  const alike = nodes.filter((node) => node.key === found?.key);
  return nearest.find(value, alike, (node) => node.value, 1)[0];
}

/** Shows key and value separately: in a path it is unclear where the key ends. */
const describeEntry = ({ key, value }: Keyed): string =>
  value === '' ? `key '${shown(key)}' without a value` : `key '${shown(key)}', value '${shown(value)}'`;

/** The content of overlay files by domain, as trees with the keys and values of the rules. */
type OverlayDomains = ReadonlyMap<string, OverlayDomain>;

interface OverlayDomain {
  /** The first place that names the domain. */
  readonly place: Place;
  /** The block that sets the domain's `spend`. */
  spend: Block<'file'> | undefined;
  readonly nodes: OverlayLevel;
}

/** The nodes of one level, by their `nodeId`. */
type OverlayLevel = Map<string, OverlayNode>;

/** The overlay files' content for one node of the rules. */
interface OverlayNode {
  readonly key: string;
  readonly value: string;
  readonly place: Place;
  /** All blocks of this node; each property is in one of them only. */
  readonly parts: Block<'node'>[];
  readonly children: OverlayLevel;
}

/** Keys of a node that affect how its limits count and how they are reported. */
const nodeKeys = [
  'shadow_mode',
  'quota_mode',
  'unit_cost',
  'charged_later',
  'detailed_metric',
  'value_to_metric',
  'metadata',
  'response',
] as const;

/** Keys that only rules may set, since they determine which limits and counters exist. */
const keysOfRules = {
  node: ['share_threshold', 'not_counted', 'match', 'blocked_by', 'count_when', 'require', 'share'],
  rate_limit: ['unlimited', 'replaces', 'share'],
} as const;

/** Keys that set a rate. */
const setsRate = ['requests_per_unit', 'budget', 'per_replica'] as const;

/** Keys that belong to the rate, in addition to those. */
const rateKeys = ['unit', 'unit_multiplier', 'window'] as const;

/** Merges overlay files, and reports what overlays may not contain. */
class Builder {
  readonly #problems: Problems;
  /** The place of each property, by node. */
  readonly #given = new Map<object, Map<string, Place>>();

  constructor(problems: Problems) {
    this.#problems = problems;
  }

  build(files: readonly Block<'file'>[]): OverlayDomains {
    const domains = new Map<string, OverlayDomain>();
    for (const { values, invalid, place } of files) {
      const { domain = '', spend, descriptors = [] } = values;
      if (domain === '') {
        const saysSomething = spend !== undefined || descriptors.length > 0 || invalid.size > 0;
        if (saysSomething && !invalid.has('domain'))
          this.#problems.error(place('domain'), 'an overlay needs the domain whose rules it changes');
        continue;
      }
      const known: OverlayDomain = domains.get(domain) ?? {
        place: place('domain'),
        spend: undefined,
        nodes: new Map(),
      };
      domains.set(domain, known);
      if (spend !== undefined) {
        this.#give(known, 'spend', place('spend'));
        known.spend = { values, invalid, place };
      }
      for (const key of ['match', 'require'] as const) if (values[key] !== undefined) this.#refuse(place(key), key);
      this.#addLevel(known.nodes, descriptors);
    }
    return domains;
  }

  #addLevel(level: OverlayLevel, blocks: readonly Block<'node'>[]): void {
    for (const block of blocks) {
      const { key = '', addresses = [], descriptors = [] } = block.values;
      if (key === '') {
        if (!block.invalid.has('key'))
          this.#problems.error(block.place('key'), 'descriptor has empty key: give it a name such as user');
        continue;
      }
      const id = nodeId(block.values);
      const node: OverlayNode = level.get(id) ?? {
        key,
        value: valueName(block.values),
        place: block.place(),
        parts: [],
        children: new Map(),
      };
      level.set(id, node);
      if (addresses.length > 1) {
        const message = `an overlay names a node by the first of its blocks alone: write addresses: ${addresses[0]}`;
        this.#problems.error(block.place('addresses'), message);
      }
      this.#checkNode(block, node);
      node.parts.push(block);
      this.#addLevel(node.children, descriptors);
    }
  }

  #checkNode(node: Block<'node'>, identity: object): void {
    const { values, invalid, place } = node;
    const { rate_limit: only, rate_limits: several, descriptors = [] } = values;
    const given = nodeKeys.filter((key) => values[key] !== undefined);
    for (const key of given) this.#give(identity, key, place(key));
    const refused = keysOfRules.node.filter((key) => values[key] !== undefined);
    for (const key of refused) this.#refuse(place(key), key);
    if (only && several)
      this.#problems.error(place('rate_limits'), 'rate_limits cannot be used with rate_limit: remove one of them');
    for (const [at, limit] of listLimits(node).entries()) this.#checkLimit(limit, at, identity);
    const says = given.length + refused.length + descriptors.length + invalid.size;
    if (says === 0 && !only && !several)
      this.#problems.warn(place(), 'this overlays nothing: it has neither a property nor descriptors');
  }

  #checkLimit({ values, invalid, place }: Block<'rate_limit'>, at: number, identity: object): void {
    // the reader drops keys that the format does not have
    for (const key of Object.keys(values) as (keyof typeof values)[]) this.#give(identity, `${at}.${key}`, place(key));
    for (const key of keysOfRules.rate_limit) if (values[key] !== undefined) this.#refuse(place(key), key);
    if (setsRate.some((key) => values[key] !== undefined || invalid.has(key))) return;
    for (const key of rateKeys) {
      if (values[key] === undefined) continue;
      this.#problems.error(
        place(key),
        `${key} is part of the rate, which an overlay changes only as a whole: write requests_per_unit as well`,
      );
    }
  }

  #give(identity: object, key: string, place: Place): void {
    const given = this.#given.get(identity) ?? new Map<string, Place>();
    this.#given.set(identity, given);
    const before = given.get(key);
    if (before) {
      const name = key.slice(key.indexOf('.') + 1);
      this.#problems.error(place, `${name} is already overlaid at ${formatLine(before)}: remove one of them`);
    } else given.set(key, place);
  }

  #refuse(place: Place, key: string): void {
    this.#problems.error(place, `${key} cannot be overlaid: only the rules define which limits and counters exist`);
  }
}
