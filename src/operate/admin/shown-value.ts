import type { Hash } from '../../base/hashed.ts';

/** Turns a value that a caller sent into the text to show. */
export type Shown = (value: string) => string;

/** @param hash  undefined: values are shown unchanged */
export const shownBy = (seesValues: boolean, hash: Hash | undefined): Shown => {
  if (!seesValues) return () => '(hidden)';
  return hash ?? ((value) => value);
};
