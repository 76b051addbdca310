import { formatLine, type Place, type Problems } from '../read/problem.ts';
import type { Block } from '../read/read.ts';

/** The content of overlay files by domain, as trees with the keys and values of the rules. */
export type OverlayDomains = ReadonlyMap<string, OverlayDomain>;

interface OverlayDomain {
  /** The first place that names the domain. */
  readonly place: Place;
  /** The block that sets the domain's `spend`. */
  spend: Block<'file'> | undefined;
  readonly nodes: OverlayLevel;
}

/** The nodes of one level, by their `idOf`. */
export type OverlayLevel = Map<string, OverlayNode>;

/** The overlay files' content for one node of the rules. */
export interface OverlayNode {
  readonly key: string;
  /** Empty: the node for any value. */
  readonly value: string;
  /** The first place that names it. */
  readonly place: Place;
  /** All blocks of this node; each property is in one of them only. */
  readonly parts: readonly Block<'node'>[];
  readonly children: OverlayLevel;
}

/** Identifies a node among its siblings. Wildcards are treated as plain text. */
export const idOf = ({ key = '', value = '' }: Block<'node'>['values']): string => `${key.length}:${key}${value}`;

/** Keys of a node that affect how its limits count and how they are reported. */
export const nodeKeys = ['shadow_mode', 'quota_mode', 'detailed_metric', 'value_to_metric', 'metadata'] as const;

/** Keys that only rules may set, since they determine which limits and counters exist. */
const keysOfRules = { node: ['share_threshold', 'not_counted'], rate_limit: ['unlimited', 'replaces'] } as const;

/** Keys that belong to the rate, in addition to `requests_per_unit`. */
const rateKeys = ['unit', 'unit_multiplier', 'window'] as const;

/** Merges overlay files, and reports what overlays may not contain. */
export function buildOverlay(files: readonly Block<'file'>[], problems: Problems): OverlayDomains {
  return new Builder(problems).build(files);
}

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
      this.#addLevel(known.nodes, descriptors);
    }
    return domains;
  }

  #addLevel(level: OverlayLevel, blocks: readonly Block<'node'>[]): void {
    for (const block of blocks) {
      const { key = '', value = '', descriptors = [] } = block.values;
      if (key === '') {
        if (!block.invalid.has('key'))
          this.#problems.error(block.place('key'), 'descriptor has empty key: give it a name such as user');
        continue;
      }
      const id = idOf(block.values);
      const known = level.get(id);
      const node = { key, value, place: known?.place ?? block.place(), children: known?.children ?? new Map() };
      const identity = node.children; // remains the same object when parts are added
      this.#checkNode(block, identity);
      level.set(id, { ...node, parts: [...(known?.parts ?? []), block] });
      this.#addLevel(node.children, descriptors);
    }
  }

  #checkNode({ values, invalid, place }: Block<'node'>, identity: object): void {
    const { rate_limit: only, rate_limits: several, descriptors = [] } = values;
    const given = nodeKeys.filter((key) => values[key] !== undefined);
    for (const key of given) this.#give(identity, key, place(key));
    const refused = keysOfRules.node.filter((key) => values[key] !== undefined);
    for (const key of refused) this.#refuse(place(key), key);
    if (only && several)
      this.#problems.error(
        place('rate_limits'),
        'rate_limit and rate_limits are mutually exclusive: remove one of them',
      );
    for (const [at, limit] of (only ? [only] : (several ?? [])).entries()) this.#checkLimit(limit, at, identity);
    const says = given.length + refused.length + descriptors.length + invalid.size;
    if (says === 0 && !only && !several)
      this.#problems.warn(place(), 'this overlays nothing: it has neither a property nor descriptors');
  }

  #checkLimit({ values, invalid, place }: Block<'rate_limit'>, at: number, identity: object): void {
    // the reader drops keys that the format does not have
    for (const key of Object.keys(values) as (keyof typeof values)[]) this.#give(identity, `${at}.${key}`, place(key));
    for (const key of keysOfRules.rate_limit) if (values[key] !== undefined) this.#refuse(place(key), key);
    if (values.requests_per_unit !== undefined || invalid.has('requests_per_unit')) return;
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
