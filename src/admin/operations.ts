import { createHash } from 'node:crypto';
import { heldLimit, type Limit } from '../algorithms/index.ts';
import type { Operation as StoreOperation } from '../backends/backend.ts';
import type { Counters } from '../backends/key.ts';
import { type Debit, debitOf } from '../ledger/debit.ts';
import { holderOf } from '../ledger/holder.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { requestFromJson } from '../rls/json.ts';
import { InvalidJson } from '../rls/json-reader.ts';
import type { WireRequest } from '../rls/wire.ts';
import { describeLimit } from '../rules/describe.ts';
import { type Entry, type Match, match } from '../rules/match.ts';
import { placeFields } from '../rules/trace.ts';
import type { Rule, RuleLimit, RuleTree } from '../rules/tree.ts';
import type { AgentQuestion, NamedReply, ReplyTo } from './agent.ts';
import { type ApiOperation, operation } from './api.ts';
import { counterOf, type KnownCounter, withIds } from './counter-key.ts';
import { type CounterState, counterState, type ExplainAnswer, type ExplainOptions, explain } from './explain.ts';
import { openApiDocument } from './openapi.ts';
import { type OverrideOptions, overrideOperations } from './override-operations.ts';
import { descriptor, domain, MAX_HITS, noQuery, reason, text } from './parameters.ts';
import { ApiProblem } from './problem.ts';
import { mergeRefusals, type SampledRefusal } from './refusals.ts';
import { object, parseJson } from './schema.ts';
import { mergeTop } from './space-saving.ts';
import { describeTop, keyOf, mergeRules, topKinds } from './top-keys.ts';
import { describeUnmatched, type UnmatchedDescriptor } from './unmatched.ts';

export interface AdminOptions extends ExplainOptions, OverrideOptions {
  readonly version: string;
  readonly ledger: Pick<Ledger, 'fork' | 'forget' | 'debit' | 'list'>;
  readonly counters: Counters;
  readonly rules: () => RuleTree | undefined;
  /** Asks every process that answers requests. */
  readonly ask: <Q extends AgentQuestion>(question: Q) => Promise<readonly NamedReply<ReplyTo<Q>>[]>;
  /** Whether other processes answer. */
  readonly hasWorkers: boolean;
  /** Callers' values are shown as their hash. */
  readonly hashKeys: boolean;
  /** Operations of other parts. */
  readonly more: readonly ApiOperation[];
}

const STORE_TIMEOUT_MS = 1_000;

/** Counters examined per page of a listing. */
export const PAGE_COUNTERS = 1_000;

/** All operations of the admin API. */
export function adminOperations(options: AdminOptions): readonly ApiOperation[] {
  const operations: ApiOperation[] = [
    operation({
      path: '/api/v1/openapi.json',
      method: 'GET',
      summary: 'this API, as an OpenAPI document',
      need: 'open',
      query: noQuery,
      answers: 'The document.',
      answer: () => openApiDocument(operations, options.version),
    }),
    ...readOperations(options),
    ...viewOperations(options),
    ...changeOperations(options),
    ...overrideOperations(options),
    ...options.more,
  ];
  return operations;
}

function readOperations(options: AdminOptions): readonly ApiOperation[] {
  return [
    operation({
      path: '/api/v1/explain',
      method: 'POST',
      summary: 'what a request would be answered with now, and why; nothing is charged',
      need: 'read',
      query: noQuery,
      body: 'any',
      answers: 'The answer of /json, and how it comes about.',
      answer: ({ rawBody }) => explainRequest(rawBody, options),
    }),
  ];
}

function viewOperations(options: AdminOptions): readonly ApiOperation[] {
  return [
    operation({
      path: '/api/v1/unmatched',
      method: 'GET',
      summary: 'descriptors of the last minute that met no rule, with the nearest rule',
      need: 'open',
      query: object({ domain: { ...domain, description: 'of this domain alone' }, count: pageSize(500) }, []),
      answers: 'Descriptors, the most frequent first. Values are hidden from clients that may not read them.',
      answer: ({ client, query }) => unmatched(options, query, shownBy(client.seesValues, options.hashKeys)),
    }),
    operation({
      path: '/api/v1/top',
      method: 'GET',
      summary: 'descriptors that hit a rule most in the last minute, or are refused most',
      need: 'read',
      query: object(
        {
          by: { type: 'string', maxLength: 10, enum: topKinds, description: 'hits (the default) or refusals' },
          rule: { ...text, description: 'the path of one rule' },
          count: pageSize(1_000),
        },
        [],
      ),
      answers: 'For each rule its most frequent descriptors, each with the most that its count is too high by.',
      answer: ({ query }) => top(options, query),
    }),
    operation({
      path: '/api/v1/refusals',
      method: 'GET',
      summary: 'the last refusals, each explained by its own decisions, where EXPLAIN_SAMPLE keeps them',
      need: 'read',
      query: object(
        {
          domain: { ...domain, description: 'of this domain alone' },
          rule: { ...text, description: 'the path of one rule' },
          after: {
            type: 'integer',
            minimum: 0,
            maximum: Number.MAX_SAFE_INTEGER,
            description: 'later than this: milliseconds since the epoch',
          },
          count: pageSize(1_000),
        },
        [],
      ),
      answers: 'Refusals, the newest first; `dropped` counts those that were not kept.',
      answer: ({ query }) => refusals(options, query),
    }),
    operation({
      path: '/api/v1/counters',
      method: 'GET',
      summary: 'the counters of a descriptor, or a page of all counters',
      need: 'read',
      query: object(
        {
          domain: { ...domain, description: 'required with descriptor' },
          descriptor: { ...text, description: 'key=value[,key=value…]; absent: all counters, a page at a time' },
          rule: { ...text, description: 'of the listing: the path of one rule' },
          after: { type: 'string', maxLength: 200, description: 'of the listing: `next` of the page before' },
        },
        [],
      ),
      answers: 'Counters with their states. `next` is there while there are more pages.',
      answer: ({ query }) => counters(options, query),
    }),
  ];
}

function changeOperations(options: AdminOptions): readonly ApiOperation[] {
  return [
    operation({
      path: '/api/v1/counters/reset',
      method: 'POST',
      summary: 'makes the counters of a descriptor new, in every process of every instance',
      need: 'operate',
      query: noQuery,
      body: object({ domain, descriptor, reason }, ['domain', 'descriptor', 'reason']),
      answers: 'The counters before and after.',
      answer: ({ client, body }) => reset(options, client.name, body),
    }),
    operation({
      path: '/api/v1/counters/grant',
      method: 'POST',
      summary: 'gives hits back to the counters of a descriptor, as far as they were used',
      need: 'operate',
      query: noQuery,
      body: object({ domain, descriptor, hits: { type: 'integer', minimum: 1, maximum: MAX_HITS }, reason }, [
        'domain',
        'descriptor',
        'hits',
        'reason',
      ]),
      answers: 'The counters before and after.',
      answer: ({ client, body }) => grant(options, client.name, body),
    }),
    operation({
      path: '/api/v1/audit',
      method: 'GET',
      summary: 'the newest changes',
      need: 'read',
      query: object({ count: pageSize(1_000) }, []),
      answers: 'Changes, the newest first.',
      answer: async ({ query: { count = 100 } }) => ({ changes: await options.audit.latest(count) }),
    }),
  ];
}

function pageSize(maximum: number) {
  return { type: 'integer', minimum: 1, maximum, description: 'how many at most' } as const;
}

async function explainRequest(body: Buffer, options: AdminOptions): Promise<object> {
  let request: WireRequest;
  try {
    request = requestFromJson(body);
  } catch (error) {
    if (!(error instanceof InvalidJson)) throw error;
    parseJson(body); // what is not JSON at all is refused
    return { status: 400, error: error.message, descriptors: [] } satisfies Omit<ExplainAnswer, 'rules'>;
  }
  const explanation = await explain(request, options);
  if (!options.hasWorkers) return explanation;
  const replies = await options.ask({ kind: 'explain', request });
  const workers = replies.map(({ process, reply: { explanation: own } }) => ({
    process,
    status: own.status,
    ...(own.answer && { answer: own.answer }),
    ...(own.error !== undefined && { error: own.error }),
    sources: [...new Set(own.descriptors.flatMap(({ limits }) => limits.flatMap((limit) => limit.source ?? [])))],
  }));
  return { ...explanation, workers };
}

/** How a value that a caller sent is shown. */
type Shown = (value: string) => string;

const shownBy = (seesValues: boolean, hashKeys: boolean): Shown => {
  if (!seesValues) return () => '(hidden)';
  return hashKeys ? hashed : (value) => value;
};

/** `#` and the beginning of the SHA-256 of the value. */
export const hashed = (value: string): string => `#${createHash('sha256').update(value).digest('hex').slice(0, 12)}`;

async function unmatched(
  options: AdminOptions,
  { domain: only, count = 50 }: { readonly domain?: string; readonly count?: number },
  shown: Shown,
): Promise<object> {
  const replies = await options.ask({ kind: 'unmatched' });
  const list = mergeTop(replies.map(({ reply }) => reply.report.list));
  const found = describeUnmatched(options.rules(), {
    ...list,
    entries: list.entries
      .filter(({ key }) => only === undefined || key.startsWith(`${only.length}:${only}|`))
      .slice(0, count),
  });
  const isPlain = shown('a') === 'a';
  const hide = ({ entries, why, nearest, ...one }: UnmatchedDescriptor): object => ({
    ...one,
    entries: entries.map(({ key, value }) => ({ key, value: shown(value) })),
    ...(why !== undefined && isPlain && { why }),
    ...(nearest && { nearest: isPlain ? nearest : nearest.map(({ descriptor: _, ...rest }) => rest) }),
  });
  return { windowSeconds: 60, total: list.total, unlistedAtMost: list.unlistedAtMost, descriptors: found.map(hide) };
}

async function top(
  options: AdminOptions,
  { by = 'hits', rule, count = 20 }: { readonly by?: string; readonly rule?: string; readonly count?: number },
): Promise<object> {
  const kind = topKinds.find((one) => one === by) ?? 'hits';
  const replies = await options.ask({ kind: 'top', by: kind });
  const rules = mergeRules(replies.map(({ reply }) => reply.tops)).filter(
    (one) => rule === undefined || one.rule === rule,
  );
  return {
    by: kind,
    windowSeconds: 60,
    rules: rules.slice(0, MAX_RULES).map((one) => describeTop(one, count, options.hashKeys ? hashed : undefined)),
  };
}
const MAX_RULES = 100;

async function refusals(
  options: AdminOptions,
  {
    domain: only,
    rule,
    after = 0,
    count = 50,
  }: { readonly domain?: string; readonly rule?: string; readonly after?: number; readonly count?: number },
): Promise<object> {
  const replies = await options.ask({ kind: 'refusals' });
  const reports = replies.flatMap(({ reply }) => reply.report ?? []);
  if (reports.length === 0) throw new ApiProblem(404, 'no refusals are kept: set EXPLAIN_SAMPLE');
  const { refusals: kept, dropped } = mergeRefusals(reports);
  const isWanted = ({ atMs, domain: name, descriptors }: SampledRefusal): boolean =>
    atMs > after &&
    (only === undefined || name === only) &&
    (rule === undefined || descriptors.some((one) => one.rule === rule));
  const shown = shownBy(true, options.hashKeys);
  return {
    dropped,
    refusals: kept
      .filter(isWanted)
      .slice(0, count)
      .map(({ descriptors, ...refusal }) => ({
        ...refusal,
        descriptors: descriptors.map((one) => ({
          ...one,
          entries: one.entries.map(({ key, value }) => ({ key, value: shown(value) })),
        })),
      })),
  };
}

/** A limit of a descriptor, and its counter now. */
interface FoundCounter {
  readonly rule: Rule;
  readonly limit: RuleLimit;
  readonly debit: Debit;
}

/** @throws Problem  404: no limit applies */
function countersOf(options: AdminOptions, name: string, entries: readonly Entry[]): readonly FoundCounter[] {
  const rules = options.rules();
  const matched = rules && matchCounter(rules, name, entries);
  const found = matched && (options.decider.overrides?.apply(matched, name, entries) ?? matched);
  if (found?.kind !== 'limited') {
    const why = found?.kind === 'unlimited' ? `${found.rule.path} is unlimited` : 'no rule applies; explain says why';
    throw new ApiProblem(404, `the descriptor has no counters: ${why}`);
  }
  return found.limits.map((limit) => {
    const counter = options.counters(limit.limit, name, found.entries);
    const own = { ...limit, limit: heldLimit(limit.limit, holderOf(found.id ?? '')) };
    return { rule: found.rule, limit, debit: debitOf(counter, own, 0, false) };
  });
}

/** An id may be left out: the counter is the same for all of them. */
function matchCounter(rules: RuleTree, domain: string, entries: readonly Entry[]): Match {
  const found = match(rules, domain, { entries, override: undefined });
  if (found.kind !== 'no_rule') return found;
  const others = withIds(rules, domain, entries).map((asked) =>
    match(rules, domain, { entries: asked, override: undefined }),
  );
  return others.find(({ kind }) => kind === 'limited') ?? found;
}

/** What the counters hold, in their order. @throws Problem  503: they cannot be reached */
async function statesOf(options: AdminOptions, debits: readonly Debit[]): Promise<readonly CounterState[]> {
  const fork = await options.ledger.fork(debits, STORE_TIMEOUT_MS);
  const replies = await fork.ledger.peek(debits);
  for (const reply of replies) if (reply.code === 'UNAVAILABLE') throw new ApiProblem(503, reply.reason);
  return debits.map((debit) => counterState(debit.limit, fork.stateOf(debit), fork.nowMs(debit)));
}

const describeCounter = ({ rule, limit, debit: { key } }: FoundCounter, state: CounterState): object => ({
  rule: rule.path,
  ...placeFields(rule.place),
  ...(limit.label.name !== '' && { name: limit.label.name }),
  limit: describeLimit(limit),
  algorithm: limit.limit.algorithm,
  counter: key,
  ...state,
});

async function counters(
  options: AdminOptions,
  query: { readonly domain?: string; readonly descriptor?: string; readonly rule?: string; readonly after?: string },
): Promise<object> {
  if (query.descriptor === undefined) return listCounters(options, query);
  if (query.domain === undefined)
    throw new ApiProblem(400, 'the query is not valid: domain is required with descriptor');
  const entries = parseDescriptor(query.descriptor);
  const found = countersOf(options, query.domain, entries);
  const states = await statesOf(
    options,
    found.map(({ debit }) => debit),
  );
  return {
    domain: query.domain,
    entries,
    counters: found.map((one, at) => describeCounter(one, states[at] as CounterState)),
  }; // one each
}

/**
 * `user=alice,path=/login`: two entries. A value goes to the next comma and may hold further `=`. @throws Problem  400
 */
export function parseDescriptor(written: string): readonly Entry[] {
  return written.split(',').map((one) => {
    const equals = one.indexOf('=');
    if (equals < 1) throw new ApiProblem(400, `a descriptor must be key=value[,key=value…], got '${written}'`);
    return { key: one.slice(0, equals), value: one.slice(equals + 1) };
  });
}

/** One page: the counters among so many keys that belong to a rule in force. */
async function listCounters(
  options: AdminOptions,
  { domain: only, rule, after }: { readonly domain?: string; readonly rule?: string; readonly after?: string },
): Promise<object> {
  if (after !== undefined && !/^\d+\/[\d:]*$/.test(after))
    throw new ApiProblem(400, 'the query is not valid: after must be `next` of another page');
  const page = await options.ledger.list(after, PAGE_COUNTERS);
  if (!page) throw new ApiProblem(501, 'the counters cannot be listed: memcached keeps no list');
  const rules = options.rules();
  const known = page.keys.flatMap((key): KnownCounter[] => {
    const found = rules && counterOf(rules, key);
    const isWanted =
      found && (only === undefined || found.domain === only) && (rule === undefined || found.rule.path === rule);
    return isWanted ? [found] : [];
  });
  const debits = known.map(({ key, limit }) => debitOf({ key }, limit, 0, false));
  const states = await statesOf(options, debits);
  const shown = shownBy(true, options.hashKeys);
  return {
    looked: page.keys.length,
    counters: known.map(({ domain: name, entries, rule: { path }, limit }, at) => ({
      domain: name,
      entries: entries.map(({ key, value }) => ({ key, value: shown(value) })),
      rule: path,
      limit: describeLimit(limit),
      algorithm: limit.limit.algorithm,
      ...states[at],
    })),
    ...(page.next !== undefined && { next: page.next }),
  };
}

interface ChangeBody {
  readonly domain: string;
  readonly descriptor: readonly Entry[];
  readonly reason: string;
}

async function reset(options: AdminOptions, who: string, body: ChangeBody): Promise<object> {
  const forget = async ({ debit, limit }: FoundCounter): Promise<void> => {
    const failed = await options.ledger.forget(debit, limit.limit, limit.policy);
    if (failed) throw new ApiProblem(503, failed.reason);
  };
  return changeCounters(options, who, 'reset', body, { kind: 'forget', hits: 0 }, forget);
}

async function grant(
  options: AdminOptions,
  who: string,
  body: ChangeBody & { readonly hits: number },
): Promise<object> {
  const { hits } = body;
  const giveBack = async ({ debit, limit }: FoundCounter): Promise<void> => {
    const back = debitOf(debit, { ...limit, limit: debit.limit }, -hits, false);
    const [entry] = await options.ledger.debit([back], { spend: 'each', timeoutMs: STORE_TIMEOUT_MS });
    if (entry?.code === 'UNAVAILABLE') throw new ApiProblem(503, entry.reason);
    if (entry?.degraded)
      throw new ApiProblem(503, 'the counters cannot be reached: the hits are given back when they can');
  };
  return changeCounters(options, who, 'grant', body, { kind: 'give_back', hits }, giveBack);
}

/** Changes every counter of a descriptor, after the audit log says so. */
async function changeCounters(
  options: AdminOptions,
  who: string,
  change: 'reset' | 'grant',
  { domain: name, descriptor: entries, reason: why }: ChangeBody,
  how: Pick<StoreOperation, 'hits'> & { readonly kind: 'forget' | 'give_back' },
  make: (counter: FoundCounter) => Promise<void>,
): Promise<object> {
  const found = countersOf(options, name, entries);
  const debits = found.map(({ debit }) => debit);
  const before = await statesOf(options, debits);
  const planned = found.map(({ limit }, at) => plannedState(limit.limit, before[at] as CounterState, how)); // one each
  const shown = shownBy(true, options.hashKeys);
  const what = {
    domain: name,
    descriptor: keyOf(entries.map(({ key, value }) => ({ key, value: shown(value) }))),
    rule: found[0]?.rule.path,
    ...(how.hits > 0 && { hits: how.hits }),
  };
  const after = await options.audit.change({ who, change, reason: why, what, before, after: planned }, async () => {
    for (const counter of found) await make(counter);
    await options.ask({
      kind: how.kind === 'forget' ? 'forget' : 'recheck',
      keys: found.map(({ debit: { key } }) => key),
    });
    return statesOf(options, debits);
  });
  return {
    domain: name,
    entries,
    counters: found.map((one, at) => ({ ...describeCounter(one, after[at] as CounterState), before: before[at] })),
  };
}

/** What the audit log says of a counter that is about to change. */
function plannedState(
  limit: Limit,
  { used, remaining }: CounterState,
  { kind, hits }: { readonly kind: string; readonly hits: number },
) {
  if (kind === 'forget') return { used: 0, remaining: counterState(limit, undefined, 0).remaining };
  const back = Math.min(hits, used);
  return { used: used - back, remaining: remaining + back };
}
