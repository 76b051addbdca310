import type { CounterKey } from '../backends/key.ts';
import { atTime, type Entry, type Match, match, withIds } from '../rules/match/match.ts';
import type { Rule, RuleLimit, RuleTree } from '../rules/match/tree.ts';
import type { Decider } from './decide.ts';

/** A counter, and the limit that it belongs to. */
export interface KnownCounter {
  readonly key: CounterKey;
  readonly domain: string;
  readonly entries: readonly Entry[];
  readonly rule: Rule;
  /** The keys under which statistics are kept: see `Match`. */
  readonly levels: readonly string[];
  readonly limit: RuleLimit;
}

/**
 * Finds the limit whose counter a key names, under the current rules. Undefined if no rule has the counter, or its name
 * is too long to be kept in the key.
 *
 * @param key      as `createCounterKeys` makes it
 * @param decider  its clock selects, among limits that share the counter, the one that applies now; its `counters` make
 *                 the keys: a candidate's counters have other names
 */
export function findCounter(
  rules: RuleTree,
  key: CounterKey,
  { clock, counters }: Pick<Decider, 'clock' | 'counters'>,
): KnownCounter | undefined {
  for (const { domain, entries } of readNames(key)) {
    for (const found of matchName(rules, { domain, entries })) {
      const isNamed = ({ limit }: RuleLimit): boolean => counters(limit, domain, found.entries).key === key;
      const now = atTime(found, clock);
      const limit = (now.kind === 'limited' ? now.limits.find(isNamed) : undefined) ?? found.limits.find(isNamed);
      if (limit) return { key, domain, entries, rule: found.rule, levels: found.levels, limit };
    }
  }
  return undefined;
}

/** The domain and the entries in the name of a counter. */
interface CounterName {
  readonly domain: string;
  readonly entries: readonly Entry[];
  /** What precedes them: a prefix, and the name of the limit's counters. */
  readonly counter: string;
}

/** The names that a key may contain: a text of the prefix may look like one. None if the name was too long for it. */
export function* readNames(key: string): Iterable<CounterName> {
  for (let bar = key.indexOf('|'); bar >= 0; bar = key.indexOf('|', bar + 1)) {
    const texts = readTexts(key, bar);
    if (!texts || texts.length % 2 === 0) continue;
    const [domain = '', ...rest] = texts;
    const entries = Array.from(
      { length: rest.length / 2 },
      (_, at): Entry => ({ key: rest[2 * at] ?? '', value: rest[2 * at + 1] ?? '' }),
    );
    yield { domain, entries, counter: key.slice(0, bar) };
  }
}

/** The matches of descriptors whose counters have this name. */
export function* matchName(
  rules: RuleTree,
  { domain, entries }: Pick<CounterName, 'domain' | 'entries'>,
): Iterable<Extract<Match, { kind: 'limited' }>> {
  for (const sent of [entries, ...withIds(rules, domain, entries)]) {
    const found = match(rules, domain, { entries: sent, requestLimit: undefined });
    const { children = [] } = found.kind === 'limited' ? found : {}; // those in the name of a child's usage
    if (found.kind === 'limited' && found.entries.length + children.length === entries.length) yield found;
  }
}

/** The texts from a bar to the end, each preceded by its length; undefined if there is anything else. */
export function readTexts(key: string, bar: number): readonly string[] | undefined {
  const texts: string[] = [];
  for (let at = bar; at < key.length; ) {
    const colon = key.indexOf(':', at);
    const written = key.slice(at + 1, colon);
    if (key[at] !== '|' || colon < 0 || !/^\d{1,6}$/.test(written)) return undefined;
    const end = colon + 1 + Number(written);
    if (end > key.length) return undefined;
    texts.push(key.slice(colon + 1, end));
    at = end;
  }
  return texts;
}
