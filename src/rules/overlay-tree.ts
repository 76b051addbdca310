import { formatLine, type Place, type Problems } from './problem.ts';
import type { Block } from './read.ts';

/** What overlay files say of each domain, as a tree with the keys and values of the rules. */
export type OverlayDomains = ReadonlyMap<string, OverlayDomain>;

export interface OverlayDomain {
  /** Where the domain is named first. */
  readonly place: Place;
  /** The block that gives the domain's `spend`. */
  spend: Block<'file'> | undefined;
  readonly nodes: OverlayLevel;
}

/** The nodes of one level, by `idOf` their key and value. */
export type OverlayLevel = Map<string, OverlayNode>;

/** What overlay files say of one node of the rules. */
export interface OverlayNode {
  readonly key: string;
  /** Empty: the node for any value. */
  readonly value: string;
  /** Where it stands first. */
  readonly place: Place;
  /** All that is said of it; no property is in two of them. */
  readonly parts: readonly Block<'node'>[];
  readonly children: OverlayLevel;
}

/** Names a node among its siblings. Wildcards are text like any other. */
export const idOf = ({ key = '', value = '' }: Block<'node'>['values']): string => `${key.length}:${key}${value}`;

/** Keys of a node that say how its limits count and how they are reported. */
export const nodeKeys = ['shadow_mode', 'quota_mode', 'detailed_metric', 'value_to_metric', 'metadata'] as const;

/** Which limits and counters there are stays with the rules. */
const keysOfRules = { node: ['share_threshold', 'not_counted'], rate_limit: ['unlimited', 'replaces'] } as const;

/** Keys that are part of the rate; `requests_per_unit` is the rest of it. */
const rateKeys = ['unit', 'unit_multiplier', 'window'] as const;

/** Puts overlay files together, and reports what no overlay may say. */
export function buildOverlay(files: readonly Block<'file'>[], problems: Problems): OverlayDomains {
  return new Builder(problems).build(files);
}

class Builder {
  readonly #problems: Problems;
  /** Where each property was given, by node. */
  readonly #given = new Map<object, Map<string, Place>>();

  constructor(problems: Problems) {
    this.#problems = problems;
  }

  build(files: readonly Block<'file'>[]): OverlayDomains {
    const domains = new Map<string, OverlayDomain>();
    for (const { values, wrong, place } of files) {
      const { domain = '', spend, descriptors = [] } = values;
      if (domain === '') {
        const saysSomething = spend !== undefined || descriptors.length > 0 || wrong.size > 0;
        if (saysSomething && !wrong.has('domain'))
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
        known.spend = { values, wrong, place };
      }
      this.#addLevel(known.nodes, descriptors);
    }
    return domains;
  }

  #addLevel(level: OverlayLevel, blocks: readonly Block<'node'>[]): void {
    for (const block of blocks) {
      const { key = '', value = '', descriptors = [] } = block.values;
      if (key === '') {
        if (!block.wrong.has('key'))
          this.#problems.error(block.place('key'), 'descriptor has empty key: give it a name such as user');
        continue;
      }
      const id = idOf(block.values);
      const known = level.get(id);
      const node = { key, value, place: known?.place ?? block.place(), children: known?.children ?? new Map() };
      const identity = node.children; // stays the same, whatever is added
      this.#checkNode(block, identity);
      level.set(id, { ...node, parts: [...(known?.parts ?? []), block] });
      this.#addLevel(node.children, descriptors);
    }
  }

  #checkNode({ values, wrong, place }: Block<'node'>, identity: object): void {
    const { rate_limit: only, rate_limits: several, descriptors = [] } = values;
    const given = nodeKeys.filter((key) => values[key] !== undefined);
    for (const key of given) this.#give(identity, key, place(key));
    const refused = keysOfRules.node.filter((key) => values[key] !== undefined);
    for (const key of refused) this.#refuse(place(key), key);
    if (only && several)
      this.#problems.error(
        place('rate_limits'),
        'rate_limit and rate_limits exclude one another: leave one of them out',
      );
    for (const [at, limit] of (only ? [only] : (several ?? [])).entries()) this.#checkLimit(limit, at, identity);
    const says = given.length + refused.length + descriptors.length + wrong.size;
    if (says === 0 && !only && !several)
      this.#problems.warn(place(), 'this overlays nothing: it has neither a property nor descriptors');
  }

  #checkLimit({ values, wrong, place }: Block<'rate_limit'>, at: number, identity: object): void {
    // the reader keeps only keys of the format
    for (const key of Object.keys(values) as (keyof typeof values)[]) this.#give(identity, `${at}.${key}`, place(key));
    for (const key of keysOfRules.rate_limit) if (values[key] !== undefined) this.#refuse(place(key), key);
    if (values.requests_per_unit !== undefined || wrong.has('requests_per_unit')) return;
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
      this.#problems.error(place, `${name} is overlaid before, at ${formatLine(before)}: leave one of them out`);
    } else given.set(key, place);
  }

  #refuse(place: Place, key: string): void {
    this.#problems.error(place, `${key} cannot be overlaid: which limits and counters there are stays with the rules`);
  }
}
