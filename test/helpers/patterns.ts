/** Lines of rules with patterns that are searched for in every value of the key `path`. */
export const patternRules = (count: number): string =>
  Array.from(
    { length: count },
    (_, at) => `  - {key: path, value: "*/v${at}/*", rate_limit: {unit: hour, requests_per_unit: 9}}`,
  ).join('\n');

/** A value that almost matches each of these patterns. 1,024 characters cost a unit of work for each pattern. */
export const almostMatching = (length: number): string => '/v'.repeat(length / 2);
