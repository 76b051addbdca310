import type { Parse } from './kinds.ts';

/** One variable: how it is read, what holds without it, and what it means. */
export interface Setting<T> {
  readonly parse: Parse<T>;
  /** The value where the variable is not set, as it would be written. Absent: it has no value then. */
  readonly fallback?: string;
  readonly meaning: string;
  /** A variable of envoyproxy/ratelimit that is read but changes nothing, and why. Setting it is worth a warning. */
  readonly noEffect?: string;
  /** Never shown, not even where it is wrong. */
  readonly secret?: true;
}

/** A group of variables, by name. */
export type Rows = Readonly<Record<string, Setting<unknown>>>;

export const setting = <T>(parse: Parse<T>, fallback: string, meaning: string) => ({ parse, fallback, meaning });
export const optional = <T>(parse: Parse<T>, meaning: string) => ({ parse: parse as Parse<T | undefined>, meaning });
export const secret = <T>(parse: Parse<T>, meaning: string) => ({ ...optional(parse, meaning), secret: true as const });
/** It is checked as envoyproxy/ratelimit does, and that is all. */
export const withoutEffect = <T>(parse: Parse<T>, noEffect: string) => ({
  ...optional(parse, `no effect: ${noEffect}`),
  noEffect,
});
