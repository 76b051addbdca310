const MAX_DIGITS = 9;

/** Parses a whole number above 0. @throws Error if the text is none, or exceeds `max` */
export function parseCount(option: string, written: string, max?: number): number {
  const value = Number(written);
  if (/^[1-9]\d*$/.test(written) && value <= (max ?? 10 ** MAX_DIGITS)) return value;
  const range = max === undefined ? 'above 0' : `from 1 to ${max}`;
  throw new Error(`${option} must be a whole number ${range}, got '${written}'`);
}

/** Parses a decimal number. @throws Error if the text is none, or out of the range */
export function parseNumber(option: string, written: string, [min, max]: readonly [number, number]): number {
  const value = Number(written);
  if (written !== '' && value >= min && value <= max) return value;
  throw new Error(`${option} must be a number from ${min} to ${max}, got '${written}'`);
}

/** Parses one of several words. @throws Error if the text is none of them */
export function parseChoice<T extends string>(option: string, written: string, choices: readonly T[]): T {
  const chosen = choices.find((choice) => choice === written);
  if (chosen !== undefined) return chosen;
  throw new Error(`${option} must be ${choices.join(', ')}, got '${written}'`);
}
