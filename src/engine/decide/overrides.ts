import type { Clock } from '../../base/clock.ts';
import { groupBy } from '../../base/group.ts';
import { epochCounter } from '../algorithms/fixed-window.ts';
import type { Unit } from '../algorithms/limit.ts';
import { limitsInFlight } from '../holds/limits.ts';
import { describeLimit } from '../rules/match/describe-limit.ts';
import { countedEntries, type Entry, type Match } from '../rules/match/match.ts';
import type { RuleLimit } from '../rules/match/tree.ts';

/** An operator's override for one descriptor, or for all that fit its wildcards, until a given time. */
export interface StandingOverride {
  readonly domain: string;
  readonly entries: readonly Entry[];
  /** Each value that ends in `*` stands for all values that begin with what precedes the `*`. */
  readonly wildcard?: true | undefined;
  readonly effect: OverrideEffect;
  /** Milliseconds since the epoch. */
  readonly untilMs: number;
  /** The name of the token that set it. */
  readonly by: string;
  readonly reason: string;
}

/** limit: replaces the limits of its rule. block: refuses every hit. exempt: passes every hit without counting it. */
export type OverrideEffect =
  | { readonly kind: 'limit'; readonly requestsPerUnit: number; readonly unit: Unit }
  | { readonly kind: 'block' | 'exempt' };

/** The counter of the limit that represents a block. */
export const BLOCK_COUNTER = 'override|block';
/** The text for such a limit. */
export const BLOCK_TEXT = 'blocked by an override';

/** Whether a limit represents an operator's block. */
export const isBlock = ({ limit }: Pick<RuleLimit, 'limit'>): boolean => limit.counter === BLOCK_COUNTER;

/** A limit in words; a block is not described as a limit of no hits. */
export const describeApplied = (one: Pick<RuleLimit, 'limit' | 'label'>): string =>
  isBlock(one) ? BLOCK_TEXT : describeLimit(one);

/** Identifies a descriptor unambiguously. */
export function descriptorKey(domain: string, entries: readonly Entry[]): string {
  let key = `${domain.length}:${domain}`;
  for (const entry of entries) key += `|${entry.key.length}:${entry.key}|${entry.value.length}:${entry.value}`;
  return key;
}

/** Identifies an override unambiguously. */
export const overrideKey = ({ domain, entries, wildcard }: OverrideName): string =>
  `${descriptorKey(domain, entries)}${wildcard ? '*' : ''}`;

export type OverrideName = Pick<StandingOverride, 'domain' | 'entries' | 'wildcard'>;

/** The descriptors among which an override with wildcards is looked for: those of its domain with its keys. */
function shapeKey(domain: string, entries: readonly Entry[]): string {
  let key = `${domain.length}:${domain}`;
  for (const entry of entries) key += `|${entry.key.length}:${entry.key}`;
  return key;
}

/** Whether a descriptor with the keys of an override fits its wildcards. */
export const fitsWildcards = ({ entries }: Pick<StandingOverride, 'entries'>, given: readonly Entry[]): boolean =>
  entries.every(({ value }, at) => {
    const text = given[at]?.value ?? '';
    return value.endsWith('*') ? text.startsWith(value.slice(0, -1)) : text === value;
  });

/** The number of characters that wildcards do not stand for. */
const literalLength = ({ override: { entries } }: Followed): number =>
  entries.reduce((sum, { value }) => sum + value.length, 0);

/** Whether hits of a match are held until they are released. */
const isHeld = ({ id, limits }: Extract<Match, { kind: 'limited' }>): boolean =>
  id !== undefined || limits.some(({ limit }) => limitsInFlight(limit));

/** What a request wants of its hits; see `Door`. */
interface Asked {
  readonly hits?: number | undefined;
  readonly isRenewed?: boolean | undefined;
}

interface Followed {
  readonly override: StandingOverride;
  readonly limit: RuleLimit | undefined;
}

/** The overrides that this process applies. */
export class Overrides {
  readonly #clock: Clock;
  readonly #windowMs: (unit: Unit) => number;
  #byKey: ReadonlyMap<string, Followed> = new Map();
  /** Those with wildcards by domain and keys, the longest first. */
  #byShape: ReadonlyMap<string, readonly Followed[]> = new Map();
  #revision = 0;
  readonly #listeners: (() => void)[] = [];

  constructor(clock: Clock, windowMs: (unit: Unit) => number) {
    this.#clock = clock;
    this.#windowMs = windowMs;
  }

  /** Number of overrides; with 0, nothing has to be looked up. */
  get size(): number {
    return this.#byKey.size;
  }

  /** Changes whenever the overrides do. */
  get revision(): number {
    return this.#revision;
  }

  *all(): Iterable<StandingOverride> {
    const nowMs = this.#clock();
    for (const { override } of this.#byKey.values()) if (override.untilMs > nowMs) yield override;
  }

  /** Applies these overrides from now on, and no others. */
  replace(overrides: Iterable<StandingOverride>): void {
    const nowMs = this.#clock();
    const known = this.#byKey;
    const next = new Map<string, Followed>();
    for (const override of overrides) {
      if (override.untilMs <= nowMs) continue;
      const key = overrideKey(override);
      const same = known.get(key);
      // an unchanged override keeps its limit object, for which caches exist
      const isSame = same && JSON.stringify(same.override) === JSON.stringify(override);
      next.set(key, isSame ? same : { override, limit: this.#createLimit(override) });
    }
    const isChanged = next.size !== known.size || [...next].some(([key, one]) => known.get(key) !== one);
    this.#byKey = next;
    if (!isChanged) return;
    const wild = [...next.values()].filter(({ override }) => override.wildcard);
    this.#byShape = groupBy(
      wild.sort((one, other) => literalLength(other) - literalLength(one)),
      ({ override: { domain, entries } }) => shapeKey(domain, entries),
    );
    this.#revision++;
    for (const listener of this.#listeners) listener();
  }

  /** Calls the listener after each change, also when an override has expired and `replace` leaves it out. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** The override of exactly this descriptor, else the longest whose wildcards it fits. */
  #find(domain: string, entries: readonly Entry[]): Followed | undefined {
    const nowMs = this.#clock();
    const isInForce = ({ override }: Followed) => override.untilMs > nowMs;
    const exact = this.#byKey.get(descriptorKey(domain, entries));
    if (exact && isInForce(exact)) return exact;
    if (this.#byShape.size === 0) return undefined;
    const wild = this.#byShape.get(shapeKey(domain, entries)) ?? [];
    return wild.find((one) => isInForce(one) && fitsWildcards(one.override, entries));
  }

  /**
   * The override of a matched descriptor: its own, else that of its counter, whose entries have no ids and have shared
   * values. With it come the limit and the entries that it applies to.
   */
  of(found: Match, domain: string, entries: readonly Entry[]) {
    const own = this.#find(domain, entries);
    if (own || !('rule' in found)) return own && { ...own, entries };
    const counted = found.kind === 'limited' ? found.entries : countedEntries(found.rule, entries);
    const shared = counted === entries ? undefined : this.#find(domain, counted);
    return shared && { ...shared, entries: counted };
  }

  /**
   * Applies the override to a match. It has no effect on a descriptor that matches no rule, nor on a release or a commit,
   * which goes to the counter that holds the hits. A limit has counted hits that are renewed, and does not count them
   * again.
   */
  apply(found: Match, domain: string, entries: readonly Entry[], { hits = 1, isRenewed = false }: Asked = {}): Match {
    if (found.kind !== 'limited' && found.kind !== 'unlimited') return found;
    if (found.kind === 'limited' && (found.commits || (hits < 0 && isHeld(found)))) return found;
    const applied = this.of(found, domain, entries);
    if (!applied) return found;
    const { rule } = found;
    const { kind } = applied.override.effect;
    if (kind === 'exempt' || (isRenewed && kind === 'limit')) return { kind: 'unlimited', rule, exempt: true };
    const { limit } = applied;
    if (!limit) return found;
    const levels = found.kind === 'limited' ? found.levels : rule.levels;
    return {
      kind: 'limited',
      rule: { ...rule, unlimited: false },
      limits: [limit],
      entries: applied.entries,
      levels,
      overridden: true,
      ...(found.kind === 'limited' && found.id !== undefined && { id: found.id }),
    };
  }

  #createLimit({ effect, untilMs }: StandingOverride): RuleLimit | undefined {
    if (effect.kind === 'exempt') return undefined;
    const { requestsPerUnit, unit } =
      effect.kind === 'limit' ? effect : { requestsPerUnit: 0, unit: 'MINUTE' as const };
    const windowMs = this.#windowMs(unit);
    const counter = effect.kind === 'block' ? BLOCK_COUNTER : epochCounter(windowMs);
    return {
      limit: { algorithm: 'fixed_window', alignment: 'epoch', requestsPerUnit, soft: 0, windowMs, counter },
      label: { name: 'override', unit, unitMultiplier: 1 },
      policy: {},
      endsAtMs: untilMs,
    };
  }
}
