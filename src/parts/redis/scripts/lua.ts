/** What Redis and Lua give to scripts (docs/lua.md). `this: void` marks functions that are no methods in Lua. */

/** Several values, as a function of Lua returns them. */
export type LuaMultiReturn<T extends unknown[]> = T & { readonly __tstlMultiReturn: unknown };

export declare const KEYS: readonly string[];
/** An argument that was not sent is undefined. */
export declare const ARGV: readonly (string | undefined)[];

export declare const redis: {
  call<T = unknown>(this: void, name: string, ...args: readonly (string | number)[]): T;
  /** An error is a record with `err`. */
  pcall<T = unknown>(this: void, name: string, ...args: readonly (string | number)[]): T;
  error_reply(this: void, message: string): never;
};

export declare const struct: {
  pack(this: void, form: string, ...values: readonly unknown[]): string;
  unpack<T extends number[]>(this: void, form: string, packed: string, from?: number): LuaMultiReturn<T>;
};

export declare const string: {
  format(this: void, form: string, number: number): string;
  rep(this: void, text: string, count: number): string;
  match(this: void, text: string, pattern: string): string | undefined;
};

export declare const table: {
  concat(this: void, texts: readonly string[]): string;
};

/** The members from one place to another, which begin with 1. */
export declare function unpack<T>(list: readonly T[], from?: number, to?: number): LuaMultiReturn<T[]>;
/** Undefined if the text is no number. */
export declare function tonumber(text: unknown): number | undefined;
