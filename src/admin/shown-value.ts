import { hashed } from '../hashed.ts';

/** Turns a value that a caller sent into the text to show. */
export type Shown = (value: string) => string;

/** @param hashKeys  `HASH_KEYS` */
export const shownBy = (seesValues: boolean, hashKeys: boolean): Shown => {
  if (!seesValues) return () => '(hidden)';
  return hashKeys ? hashed : (value) => value;
};
