/** A step as a script: see docs/lua.md. */
export interface Compiled {
  /** Of the function; with the suffix `_refund`, that of the other one. */
  readonly name: string;
  /** The names of the numbers of a limit, in the order in which the script reads them. */
  readonly fields: readonly string[];
  readonly lua: string;
}
