import { createMogrify, type Mogrifier, type StatsdTarget } from './mogrifier.ts';
import { asTagValue } from './statistic-name.ts';

/** Maps names of statistics to a sink's names and tags, in the same order. */
export type StatsdNames = (names: readonly string[]) => readonly StatsdTarget[];

/**
 * StatsD has no tags: they are appended to the name as `<name>.__<tag>=<value>`, sorted, as in envoyproxy/ratelimit.
 */
export function statsdNames(extraTags: ReadonlyMap<string, string>): StatsdNames {
  const suffix = sorted(extraTags).map(([tag, value]) => `.__${tag}=${asTagValue(value)}`);
  return (names) => names.map((name) => ({ name: `${name}${suffix.join('')}`, tags: new Map() }));
}

/** DogStatsD has tags: the extra tags, overridden by those of mogrifiers. */
export function dogStatsdNames(extraTags: ReadonlyMap<string, string>, mogrifiers: readonly Mogrifier[]): StatsdNames {
  const extra = [...extraTags].map(([tag, value]) => [tag, asTagValue(value)] as const);
  const mogrify = createMogrify(mogrifiers);
  return (names) => names.map(mogrify).map(({ name, tags }) => ({ name, tags: new Map(sorted([...extra, ...tags])) }));
}

const sorted = (tags: Iterable<readonly [string, string]>): readonly (readonly [string, string])[] =>
  [...tags].sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0));
