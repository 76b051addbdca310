const MAX_DIGITS = 9;

/** A whole number above 0. @throws Error  the text is none, or exceeds `most` */
export function countOf(option: string, written: string, most?: number): number {
  const value = Number(written);
  if (/^[1-9]\d*$/.test(written) && value <= (most ?? 10 ** MAX_DIGITS)) return value;
  const range = most === undefined ? 'above 0' : `from 1 to ${most}`;
  throw new Error(`${option} must be a whole number ${range}, got '${written}'`);
}

/** A decimal number. @throws Error  the text is none, or out of the range */
export function numberOf(option: string, written: string, [least, most]: readonly [number, number]): number {
  const value = Number(written);
  if (written !== '' && value >= least && value <= most) return value;
  throw new Error(`${option} must be a number from ${least} to ${most}, got '${written}'`);
}

/** One of several words. @throws Error  the text is none of them */
export function choiceOf<T extends string>(option: string, written: string, choices: readonly T[]): T {
  const chosen = choices.find((choice) => choice === written);
  if (chosen !== undefined) return chosen;
  throw new Error(`${option} must be ${choices.join(', ')}, got '${written}'`);
}
