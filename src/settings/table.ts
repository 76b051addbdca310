import { answerGroups } from './answers.ts';
import { counterRows } from './counters.ts';
import type { Mismatch, Parse } from './kinds.ts';
import { operatorGroups } from './operators.ts';
import type { Rows } from './row.ts';
import { ruleRows } from './rules.ts';
import { serverRows } from './server.ts';
import { sharingGroups } from './sharing.ts';

const groups = {
  Servers: serverRows,
  'Source of the rules': ruleRows,
  Counters: counterRows,
  ...sharingGroups,
  ...answerGroups,
  ...operatorGroups,
} as const satisfies Readonly<Record<string, Rows>>;

/** Every variable that Weir reads, by topic. */
export const settingsTable: Readonly<Record<string, Rows>> = groups;

/** The properties of all members of a union. */
type Merged<U> = (U extends unknown ? (one: U) => void : never) extends (all: infer All) => void ? All : never;

type Table = Merged<(typeof groups)[keyof typeof groups]>;
type Read<R> = R extends { readonly parse: Parse<infer T> } ? Exclude<T, Mismatch> : never;

/** The parsed values by variable name. */
export type Values = { readonly [K in keyof Table]: Read<Table[K]> };

/** All groups together. */
export const table: Table = Object.assign({}, ...Object.values(groups)); // the groups merged, as typed
