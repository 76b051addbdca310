import { flag, type Parse, text } from './kinds.ts';

/** A variable with its parser, default and meaning. */
interface Setting<T> {
  readonly parse: Parse<T>;
  /** Default as text, if any. */
  readonly fallback?: string;
  readonly meaning: string;
  /** Reason why this variable of envoyproxy/ratelimit has no effect; setting it logs a warning. */
  readonly noEffect?: string;
  /** Deprecated name, read if the variable is not set; setting it logs a warning. */
  readonly formerName?: string;
  /** Whether the value is never shown, not even in error messages. */
  readonly secret?: true;
}

/** A group of variables, by name. */
export type Rows = Readonly<Record<string, Setting<unknown>>>;

export const setting = <T>(parse: Parse<T>, fallback: string, meaning: string) => ({ parse, fallback, meaning });
/** A flag that is false by default. */
export const off = (meaning: string) => setting(flag, 'false', meaning);
/** A text that is empty by default. */
export const emptyText = (meaning: string) => setting(text, '', meaning);
export const optional = <T>(parse: Parse<T>, meaning: string) => ({ parse: parse as Parse<T | undefined>, meaning });
export const secret = <T>(parse: Parse<T>, meaning: string) => ({ ...optional(parse, meaning), secret: true as const });
/** A variable of envoyproxy/ratelimit that is validated and otherwise ignored. */
export const withoutEffect = <T>(parse: Parse<T>, noEffect: string) => ({
  ...optional(parse, `no effect: ${noEffect}`),
  noEffect,
});
