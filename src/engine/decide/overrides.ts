import type { Clock } from '../../base/clock.ts';
import { epochCounter } from '../algorithms/fixed-window.ts';
import type { Unit } from '../algorithms/limit.ts';
import { describeLimit } from '../rules/match/describe.ts';
import { countedEntries, type Entry, type Match } from '../rules/match/match.ts';
import type { RuleLimit } from '../rules/match/tree.ts';

/** An operator's override for one descriptor, until a given time. */
export interface StandingOverride {
  readonly domain: string;
  readonly entries: readonly Entry[];
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

/** A limit in words; a block is not described as a limit of no hits. */
export const describeApplied = (one: Pick<RuleLimit, 'limit' | 'label'>): string =>
  one.limit.counter === BLOCK_COUNTER ? BLOCK_TEXT : describeLimit(one);

/** Identifies a descriptor unambiguously. */
export function descriptorKey(domain: string, entries: readonly Entry[]): string {
  let key = `${domain.length}:${domain}`;
  for (const entry of entries) key += `|${entry.key.length}:${entry.key}|${entry.value.length}:${entry.value}`;
  return key;
}

/** The overrides that this process applies. */
export class Overrides {
  readonly #clock: Clock;
  readonly #windowMs: (unit: Unit) => number;
  #byKey: ReadonlyMap<string, { readonly override: StandingOverride; readonly limit: RuleLimit | undefined }> =
    new Map();
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
    const next = new Map<string, { readonly override: StandingOverride; readonly limit: RuleLimit | undefined }>();
    for (const override of overrides) {
      if (override.untilMs <= nowMs) continue;
      const key = descriptorKey(override.domain, override.entries);
      const same = known.get(key);
      // an unchanged override keeps its limit object, for which caches exist
      const isSame = same && JSON.stringify(same.override) === JSON.stringify(override);
      next.set(key, isSame ? same : { override, limit: this.#createLimit(override) });
    }
    const isChanged = next.size !== known.size || [...next].some(([key, one]) => known.get(key) !== one);
    this.#byKey = next;
    if (!isChanged) return;
    this.#revision++;
    for (const listener of this.#listeners) listener();
  }

  /** Calls the listener after each change, also when an override has expired and `replace` leaves it out. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** The override of a descriptor; undefined if there is none, or it has expired. */
  find(domain: string, entries: readonly Entry[]): StandingOverride | undefined {
    const found = this.#byKey.get(descriptorKey(domain, entries));
    return found && found.override.untilMs > this.#clock() ? found.override : undefined;
  }

  /**
   * The override of a matched descriptor: its own, else that of its counter, whose entries have no ids and have shared
   * values.
   */
  of(found: Match, domain: string, entries: readonly Entry[]): StandingOverride | undefined {
    const override = this.find(domain, entries);
    if (override || !('rule' in found)) return override;
    const counted = found.kind === 'limited' ? found.entries : countedEntries(found.rule, entries);
    return counted === entries ? undefined : this.find(domain, counted);
  }

  /** Applies the override to a match. An override of a descriptor that matches no rule has no effect. */
  apply(found: Match, domain: string, entries: readonly Entry[]): Match {
    if (found.kind !== 'limited' && found.kind !== 'unlimited') return found;
    if (found.kind === 'limited' && found.commits) return found; // usage is charged to the counter with its reservation
    const override = this.of(found, domain, entries);
    if (!override) return found;
    const { rule } = found;
    if (override.effect.kind === 'exempt') return { kind: 'unlimited', rule, exempt: true };
    const limit = this.#byKey.get(descriptorKey(domain, override.entries))?.limit;
    if (!limit) return found;
    const levels = found.kind === 'limited' ? found.levels : rule.levels;
    return {
      kind: 'limited',
      rule: { ...rule, unlimited: false },
      limits: [limit],
      entries: override.entries,
      levels,
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
