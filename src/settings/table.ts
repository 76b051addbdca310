import { adminRows } from './admin.ts';
import { answerRows, statisticsRows } from './answers.ts';
import { candidateRows } from './candidate.ts';
import { counterRows } from './counters.ts';
import type { Mismatch, Parse } from './kinds.ts';
import { quotaRows } from './quotas.ts';
import { recordRows } from './record.ts';
import type { Rows } from './row.ts';
import { ruleRows } from './rules.ts';
import { serverRows, tracingRows } from './server.ts';
import { siteRows } from './sites.ts';

/** Every variable that Weir reads, by topic. */
export const groups = {
  Servers: serverRows,
  'Source of the rules': ruleRows,
  Counters: counterRows,
  'Quotas for proxies': quotaRows,
  'Several sites': siteRows,
  Answers: answerRows,
  Statistics: statisticsRows,
  'The admin API': adminRows,
  Recording: recordRows,
  'Candidate rules': candidateRows,
  Traces: tracingRows,
} as const satisfies Readonly<Record<string, Rows>>;

type Table = typeof serverRows &
  typeof ruleRows &
  typeof counterRows &
  typeof quotaRows &
  typeof siteRows &
  typeof answerRows &
  typeof statisticsRows &
  typeof adminRows &
  typeof recordRows &
  typeof candidateRows &
  typeof tracingRows;
type Read<R> = R extends { readonly parse: Parse<infer T> } ? Exclude<T, Mismatch> : never;

/** The parsed values by variable name. */
export type Values = { readonly [K in keyof Table]: Read<Table[K]> };

/** All groups together. */
export const table: Table = Object.assign({}, ...Object.values(groups)); // the groups merged, as typed
