import type { SiteSplit } from '../algorithms/site-share.ts';
import { type CompiledDomain, compileDomain } from './compile.ts';
import { type PackedDomain, type PackedRules, unpack } from './packed.ts';
import { Problems } from './problem.ts';
import { finish, inSlices, type Steps } from './steps.ts';
import type { RuleTree } from './tree.ts';

interface Known extends CompiledDomain {
  readonly packed: PackedDomain;
}

/** The rules in force, as they are matched and as they are sent to other processes. */
export class RulesInForce {
  readonly #listeners = new Set<() => void>();
  #byDomain: ReadonlyMap<string, Known> = new Map();
  #tree: RuleTree | undefined;
  #packed: PackedRules | undefined;
  readonly #split: SiteSplit | undefined;

  /** @param split  of limits that sites share; undefined: this is the only site */
  constructor(split?: SiteSplit) {
    this.#split = split;
  }

  /** Undefined: there have been none so far. */
  get tree(): RuleTree | undefined {
    return this.#tree;
  }
  get packed(): PackedRules | undefined {
    return this.#packed;
  }

  /**
   * Compiles the domains that have changed, a few nodes in a turn of the event loop, then puts all in force in one
   * step.
   */
  async replace(packed: PackedRules, pause?: () => Promise<unknown>): Promise<RuleTree> {
    return this.#put(packed, await inSlices(this.#compile(packed), { pause }));
  }

  /** The same in one turn: for the start, before there are requests. */
  replaceAtOnce(packed: PackedRules): RuleTree {
    return this.#put(packed, finish(this.#compile(packed)));
  }

  /** Whether these are the rules in force already. */
  has(packed: PackedRules): boolean {
    const inForce = this.#packed;
    return inForce?.length === packed.length && packed.every((domain, at) => isSame(domain, inForce[at]));
  }

  /** Calls back after each change. */
  onChange(listener: () => void): void {
    this.#listeners.add(listener);
  }

  *#compile(packed: PackedRules): Steps<readonly Known[]> {
    const compiled: Known[] = [];
    for (const domain of packed) {
      const known = this.#byDomain.get(domain.name);
      if (known && isSame(known.packed, domain)) compiled.push(known);
      else
        compiled.push({
          ...(yield* compileDomain(domain.name, unpack(domain), new Problems(), this.#split)),
          packed: domain,
        });
      yield 1;
    }
    return compiled;
  }

  #put(packed: PackedRules, compiled: readonly Known[]): RuleTree {
    const tree = {
      domains: new Map(compiled.map(({ domain }) => [domain.name, domain])),
      rules: compiled.flatMap(({ rules }) => rules),
    };
    this.#byDomain = new Map(compiled.map((known) => [known.domain.name, known]));
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
