import type { SiteSplit } from '../../holds/claim.ts';
import { type PackedDomain, type PackedRules, unpack } from '../compile/packed.ts';
import { finish, inSlices, type Steps } from '../compile/steps.ts';
import { buildDomain } from '../compile/tree-builder.ts';
import { type Domain, listRules, type RuleTree } from '../match/tree.ts';

interface Known {
  readonly domain: Domain;
  readonly packed: PackedDomain;
}

/** The current rules, as they are matched and as they are sent to other processes. */
export class RulesInForce {
  readonly #listeners = new Set<() => void>();
  #byDomain: ReadonlyMap<string, Known> = new Map();
  #tree: RuleTree | undefined;
  #packed: PackedRules | undefined;
  readonly #split: SiteSplit | undefined;

  /** @param split  the division of limits that sites share; undefined if this is the only site */
  constructor(split?: SiteSplit) {
    this.#split = split;
  }

  get tree(): RuleTree | undefined {
    return this.#tree;
  }
  get packed(): PackedRules | undefined {
    return this.#packed;
  }

  /** Builds the trees of changed domains in slices, a few nodes per turn, then replaces the rules in one step. */
  async replace(packed: PackedRules, pause?: () => Promise<unknown>): Promise<RuleTree> {
    return this.#put(packed, await inSlices(this.#build(packed), pause));
  }

  /** Like `replace`, in one turn: for the start, before there are requests. */
  replaceAtOnce(packed: PackedRules): RuleTree {
    return this.#put(packed, finish(this.#build(packed)));
  }

  has(packed: PackedRules): boolean {
    const inForce = this.#packed;
    return inForce?.length === packed.length && packed.every((domain, at) => isSame(domain, inForce[at]));
  }

  onChange(listener: () => void): void {
    this.#listeners.add(listener);
  }

  *#build(packed: PackedRules): Steps<readonly Known[]> {
    const built: Known[] = [];
    for (const domain of packed) {
      const known = this.#byDomain.get(domain.name);
      if (known && isSame(known.packed, domain)) built.push(known);
      else
        built.push({ domain: yield* buildDomain({ ...domain, nodes: unpack(domain) }, this.#split), packed: domain });
      yield 1;
    }
    return built;
  }

  #put(packed: PackedRules, built: readonly Known[]): RuleTree {
    const domains = new Map(built.map(({ domain }) => [domain.name, domain]));
    const tree = { domains, rules: listRules(domains) };
    this.#byDomain = new Map(built.map((known) => [known.domain.name, known]));
    this.#tree = tree;
    this.#packed = packed;
    for (const listener of this.#listeners) listener();
    return tree;
  }
}

const isSame = (one: PackedDomain, other: PackedDomain | undefined): boolean =>
  one.name === other?.name &&
  one.spend === other.spend &&
  JSON.stringify(one.overlaid) === JSON.stringify(other.overlaid) &&
  one.pieces.length === other.pieces.length &&
  one.pieces.every((piece, at) => piece === other.pieces[at]);
