import { createMogrify, type Mogrifier, type Target } from './mogrifier.ts';
import { asTagValue } from './statistic-name.ts';

/** Gives statistics the names and tags under which a sink has them, in the order of the names. */
export type StatsdNames = (names: readonly string[]) => readonly Target[];

/** StatsD has no tags: they are written behind the name, `<name>.__<tag>=<value>`, in order, as envoyproxy/ratelimit does. */
export function statsdNames(extraTags: ReadonlyMap<string, string>): StatsdNames {
  const suffix = sorted(extraTags).map(([tag, value]) => `.__${tag}=${asTagValue(value)}`);
  return (names) => names.map((name) => ({ name: `${name}${suffix.join('')}`, tags: new Map() }));
}

/** DogStatsD has tags: those of all statistics, and those that a mogrifier makes, which win. */
export function dogStatsdNames(
  extraTags: ReadonlyMap<string, string>,
  mogrifiers: readonly Mogrifier[],
  onTooSlow: (mogrifier: Mogrifier) => void,
): StatsdNames {
  const extra = [...extraTags].map(([tag, value]) => [tag, asTagValue(value)] as const);
  const mogrify = createMogrify(mogrifiers, onTooSlow);
  return (names) => mogrify(names).map(({ name, tags }) => ({ name, tags: new Map(sorted([...extra, ...tags])) }));
}

const sorted = (tags: Iterable<readonly [string, string]>): readonly (readonly [string, string])[] =>
  [...tags].sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0));
