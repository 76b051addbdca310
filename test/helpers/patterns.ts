/** Lines of rules with patterns that are searched for in every value of the key `path`. */
export const patternRules = (count: number): string =>
  Array.from(
    { length: count },
    (_, at) => `  - {key: path, value: "*/v${at}/*", rate_limit: {unit: hour, requests_per_unit: 9}}`,
  ).join('\n');

/** A value that almost matches each of these patterns, and costs this number of units of work. */
export const almostMatching = (units: number): string => '/v'.repeat(units * 256);

const CROSSED = 36;
const parts = (letter: string, count: number): readonly string[] =>
  Array.from({ length: count }, (_, at) => `${letter}${at}.`);

/** Lines of rules whose patterns combine each of 36 parts with each of 36 others, and a third one. */
export const crossedRules = parts('a', CROSSED)
  .flatMap((one) => parts('b', CROSSED).map((other) => `*${one}*${other}*c*`))
  .map((value) => `  - {key: path, value: "${value}", rate_limit: {unit: hour, requests_per_unit: 9}}`)
  .join('\n');

/**
 * A short value that is expensive to search for these patterns.
 *
 * @param firsts  how many of the first 36 parts it has; each costs about 20 units of work
 */
export const crossing = (firsts: number): string =>
  [...parts('a', firsts), ...parts('b', CROSSED), ...parts('b', CROSSED)].join('');

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** A pattern of a rule file as a regular expression. */
export const asRegExp = (text: string): RegExp => new RegExp(`^${text.split('*').map(escaped).join('[^]*')}$`);

/** The work of matching that a request may cause. */
export const MAX_MATCH_UNITS = 512;
