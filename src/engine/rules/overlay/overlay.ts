import { checkpoint } from '../read/checkpoint.ts';
import { mergeMetadata } from '../read/metadata.ts';
import type { Overlaid } from '../read/overlaid.ts';
import { formatLine, type Place, type Problem, Problems, shown } from '../read/problem.ts';
import { type Block, readText } from '../read/read.ts';
import { laidLimit } from './laid-limit.ts';
import { NearestNode } from './nearest-node.ts';
import {
  buildOverlay,
  idOf,
  nodeKeys,
  type OverlayDomains,
  type OverlayLevel,
  type OverlayNode,
} from './overlay-tree.ts';

/** An overlay file: its name in messages, and its content. */
export interface OverlayFile {
  readonly name: string;
  readonly text: string;
}

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

/** Problems of an overlay that do not depend on the rules. */
export function checkOverlay(overlay: readonly OverlayFile[]): readonly Problem[] {
  const problems = new Problems();
  readOverlay(overlay, problems);
  return problems.all;
}

const readOverlay = (overlay: readonly OverlayFile[], problems: Problems): OverlayDomains =>
  buildOverlay(
    overlay.flatMap(({ name, text }) => readText(name, text, problems)),
    problems,
  );

const layLevel = (nodes: readonly Block<'node'>[], level: OverlayLevel, problems: Problems): readonly Block<'node'>[] =>
  nodes.map((node) => {
    checkpoint();
    const over = level.get(idOf(node.values));
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
    above && below ? { ...part, values: { ...part.values, metadata: mergeMetadata([above, below]) } } : part;
  return layLimits(layProperties(node, merged, keys), part, problems);
}

/** A block with some values of another one, which keep their places. */
function layProperties<B extends Block<'file'> | Block<'node'>>(block: B, over: B, keys: readonly string[]): B {
  if (keys.length === 0) return block;
  const given: Readonly<Record<string, unknown>> = over.values;
  const placeOf = (from: B, key?: string): Place => from.place(key as never); // both have the keys of the format
  return {
    ...block,
    values: { ...block.values, ...Object.fromEntries(keys.map((key) => [key, given[key]])) },
    place: (key?: string) => placeOf(key !== undefined && keys.includes(key) ? over : block, key),
    overlaid: [...(block.overlaid ?? []), ...keys.map((key) => overlaidAt(key, placeOf(over, key)))],
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
  const { rate_limit: only, rate_limits: several } = part.values;
  const over = several ?? (only ? [only] : []);
  if (over.length === 0) return node;
  const below = node.values.rate_limits ?? (node.values.rate_limit ? [node.values.rate_limit] : []);
  if (only && below.length > 1) {
    const message = `this node has ${below.length} limits: write rate_limits, with an entry for each of them`;
    problems.error(part.place('rate_limit'), message);
    return node;
  }
  const limits: LimitBlock[] = [];
  const overlaid: Overlaid[] = [];
  for (let at = 0; at < Math.max(below.length, over.length); at++) {
    const [lower, upper] = [below[at], over[at]];
    const laid = upper && keysOf(upper).length > 0 ? layLimit(lower, upper, problems) : undefined;
    const limit = laid ?? lower;
    if (limit) limits.push(limit);
    if (laid && upper)
      overlaid.push(...keysOf(upper).map((key) => overlaidAt(key, upper.place(key), limits.length - 1)));
  }
  return overlaid.length === 0 ? node : withLimits(node, limits, [...(node.overlaid ?? []), ...overlaid]);
}

/** @param limits  at least one */
function withLimits(node: Block<'node'>, limits: readonly LimitBlock[], overlaid: readonly Overlaid[]): Block<'node'> {
  const { rate_limit: _, rate_limits: several, ...others } = node.values;
  const [first, second] = limits;
  const values = first && !second && !several ? { ...others, rate_limit: first } : { ...others, rate_limits: limits };
  return { ...node, values, overlaid };
}

// the reader drops keys that the format does not have
const keysOf = ({ values }: LimitBlock): readonly LimitKey[] => Object.keys(values) as LimitKey[];

/**
 * The limit with the overlay's changes; a new limit if there was none and the overlay sets a rate; undefined: no
 * change.
 */
function layLimit(lower: LimitBlock | undefined, upper: LimitBlock, problems: Problems): LimitBlock | undefined {
  const idle = (message: string): undefined => problems.warn(upper.place(), message);
  if (!lower && upper.values.requests_per_unit === undefined)
    return idle('this overlays nothing: the rules have no such limit, and without requests_per_unit none is added');
  if (!lower) return upper;
  if (lower.values.unlimited)
    return idle(`this overlays nothing: the rule is unlimited (${formatLine(lower.place())})`);
  return laidLimit(lower, upper);
}

/** Warns of overlay nodes that no rule matches, once for each topmost one, and names the nearest path. */
function warnUnmatched(domains: OverlayDomains, rules: readonly Block<'file'>[], problems: Problems): void {
  const nearest = new NearestNode();
  for (const [domain, { place, nodes }] of domains) {
    const files = rules.filter(({ values }) => values.domain === domain);
    if (files.length > 0) {
      const level = files.flatMap(({ values }) => values.descriptors ?? []);
      const [first] = files;
      if (first) warnLevel(nodes, level, { path: domain, place: first.place() }, { nearest, problems });
      continue;
    }
    const named = rules.map((file) => ({ key: file.values.domain ?? '', value: '', file }));
    const found = nearest.find({ key: domain, value: '' }, named);
    const hint = found ? `; the nearest is '${shown(found.key)}' (${formatLine(found.file.place())})` : '';
    problems.warn(place, `no rules have the domain '${shown(domain)}'${hint}`);
  }
}

interface Parent {
  readonly path: string;
  readonly place: Place;
}

function warnLevel(
  level: OverlayLevel,
  nodes: readonly Block<'node'>[],
  parent: Parent,
  report: { readonly nearest: NearestNode; readonly problems: Problems },
): void {
  if (level.size === 0) return;
  const byId = new Map(nodes.map((node) => [idOf(node.values), node]));
  const named = nodes.map(({ values, place }) => ({ key: values.key ?? '', value: values.value ?? '', place }));
  for (const [id, over] of level) {
    const found = byId.get(id);
    const path = `${parent.path}.${compositeOf(over)}`;
    if (found) {
      const below = { path, place: found.place() };
      warnLevel(over.children, found.values.descriptors ?? [], below, report);
      continue;
    }
    const near = report.nearest.find(over, named);
    const hint = near
      ? `the nearest is '${shown(`${parent.path}.${compositeOf(near)}`)}' (${entryOf(near)}; ${formatLine(near.place())})`
      : `the nearest is '${shown(parent.path)}' (${formatLine(parent.place)}), which has no descriptors`;
    const message = `no rule has the path '${shown(path)}' (${entryOf(over)}); ${hint}`;
    report.problems.warn(over.place, message);
  }
}

const compositeOf = ({ key, value }: { readonly key: string; readonly value: string }): string =>
  value === '' ? key : `${key}_${value}`;

/** Shows key and value separately: in a path it is unclear where the key ends. */
const entryOf = ({ key, value }: { readonly key: string; readonly value: string }): string =>
  value === '' ? `key '${shown(key)}' without a value` : `key '${shown(key)}', value '${shown(value)}'`;
