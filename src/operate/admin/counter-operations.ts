import { inSlices } from '../../base/slices.ts';
import { type Limit, namedAlgorithmOf } from '../../engine/algorithms/index.ts';
import type { Operation as StoreOperation } from '../../engine/backends/backend.ts';
import { counterOf, type KnownCounter } from '../../engine/decide/counter-key.ts';
import type { Decider } from '../../engine/decide/decide.ts';
import type { StandingOverride } from '../../engine/decide/overrides.ts';
import { type Debit, debitOf, heldBy } from '../../engine/ledger/debit.ts';
import { holderOf } from '../../engine/ledger/holder.ts';
import { describeLimit, placeFields } from '../../engine/rules/match/describe.ts';
import { descriptorText } from '../../engine/rules/match/descriptor-text.ts';
import { atTime, type Entry, type Match, match, withIds } from '../../engine/rules/match/match.ts';
import type { Rule, RuleLimit, RuleTree } from '../../engine/rules/match/tree.ts';
import { MAX_UINT32 } from '../../engine/wire/wire.ts';
import { type ApiOperation, operation } from './api.ts';
import { type CounterState, counterState, describeOverride } from './explain.ts';
import type { AdminOptions } from './options.ts';
import {
  type ChangeBody,
  DESCRIPTOR_QUERY,
  descriptor,
  domain,
  noQuery,
  readDescriptor,
  reason,
  refuseHashes,
  text,
} from './parameters.ts';
import { ApiProblem } from './problem.ts';
import { object } from './schema.ts';
import { type Shown, shownBy } from './shown-value.ts';

/** Operations that show and change the counters of a descriptor, or list all counters. */
export function counterOperations(options: AdminOptions): readonly ApiOperation[] {
  return [
    operation({
      path: '/api/v1/counters',
      method: 'GET',
      summary: 'the counters of a descriptor, or a page of all counters',
      need: 'read',
      query: object(
        {
          domain: { ...domain, description: 'required with descriptor' },
          descriptor: { ...text, description: `${DESCRIPTOR_QUERY}; absent: all counters, a page at a time` },
          rule: { ...text, description: 'only without descriptor: the path of one rule' },
          after: {
            type: 'string',
            maxLength: 200,
            description: 'only without descriptor: `next` of the previous page',
          },
        },
        [],
      ),
      answers: 'Counters with their states. `next` is present if there are more pages.',
      answer: ({ query }) => counters(options, query),
    }),
    operation({
      path: '/api/v1/counters/reset',
      method: 'POST',
      summary: 'resets the counters of a descriptor in every process of every instance',
      need: 'operate',
      query: noQuery,
      body: object({ domain, descriptor, reason }, ['domain', 'descriptor', 'reason']),
      answers: 'The counters before and after.',
      answer: ({ client, body }) => reset(options, client.name, body),
    }),
    operation({
      path: '/api/v1/counters/grant',
      method: 'POST',
      summary: 'refunds hits to the counters of a descriptor, at most as many as were used',
      need: 'operate',
      query: noQuery,
      body: object({ domain, descriptor, hits: { type: 'integer', minimum: 1, maximum: MAX_UINT32 }, reason }, [
        'domain',
        'descriptor',
        'hits',
        'reason',
      ]),
      answers: 'The counters before and after.',
      answer: ({ client, body }) => grant(options, client.name, body),
    }),
  ];
}

async function counters(
  options: AdminOptions,
  query: { readonly domain?: string; readonly descriptor?: string; readonly rule?: string; readonly after?: string },
): Promise<object> {
  if (query.descriptor === undefined) return listCounters(options, query);
  if (query.domain === undefined)
    throw new ApiProblem(400, 'the query is not valid: domain is required with descriptor');
  const entries = readDescriptor(query.descriptor);
  const { counters: found, override } = countersOf(options, query.domain, entries);
  const states = await statesOf(
    options,
    found.map(({ debit }) => debit),
  );
  return {
    domain: query.domain,
    entries,
    ...(override && { override: describeOverride(override) }),
    counters: found.map((one, at) => describeCounter(one, states[at] as CounterState)), // one for each
  };
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
  const giveBack = async ({ debit }: FoundCounter): Promise<void> => {
    const back: Debit = { ...debit, kind: 'give_back', hits };
    const [entry] = await options.ledger.debit([back], { spend: 'each', timeoutMs: STORE_TIMEOUT_MS });
    if (entry?.code === 'UNAVAILABLE') throw new ApiProblem(503, entry.reason);
    if (entry?.degraded)
      throw new ApiProblem(503, 'the counters cannot be reached: the hits will be refunded when they can be');
  };
  return changeCounters(options, who, 'grant', body, { kind: 'give_back', hits }, giveBack);
}

/** Changes every counter of a descriptor, after writing the change to the audit log. */
async function changeCounters(
  options: AdminOptions,
  who: string,
  change: 'reset' | 'grant',
  { domain: name, descriptor: entries, reason: why }: ChangeBody,
  how: Pick<StoreOperation, 'hits'> & { readonly kind: 'forget' | 'give_back' },
  make: (counter: FoundCounter) => Promise<void>,
): Promise<object> {
  refuseHashes(entries, options.hash);
  const { counters: found, override } = countersOf(options, name, entries);
  const debits = found.map(({ debit }) => debit);
  const before = await statesOf(options, debits);
  const planned = found.map(({ limit }, at) => plannedState(limit.limit, before[at] as CounterState, how)); // one each
  const shown = shownBy(true, options.hash);
  const what = {
    domain: name,
    descriptor: descriptorText(entries.map(({ key, value }) => ({ key, value: shown(value) }))),
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
    ...(override && { override: describeOverride(override) }),
    counters: found.map((one, at) => ({ ...describeCounter(one, after[at] as CounterState), before: before[at] })),
  };
}

/** The expected state after the change, for the audit log. */
function plannedState(
  limit: Limit,
  { used, remaining }: CounterState,
  { kind, hits }: { readonly kind: string; readonly hits: number },
) {
  if (kind === 'forget') return { used: 0, remaining: counterState(limit, undefined, 0).remaining };
  const back = Math.min(hits, used);
  return { used: used - back, remaining: remaining + back };
}

/** The number of counters examined for each page of a listing. */
export const PAGE_COUNTERS = 1_000;

/** The number of counters examined in one turn of the event loop, and read from the store in one call. */
export const COUNTERS_A_TURN = 100;

interface ListQuery {
  readonly domain?: string;
  readonly rule?: string;
  readonly after?: string;
}

/** One page: of `PAGE_COUNTERS` keys, the counters that belong to a rule in force. */
export async function listCounters(
  options: Pick<AdminOptions, 'ledger' | 'rules' | 'hash'> & {
    readonly decider: Pick<Decider, 'clock' | 'counters'>;
  },
  query: ListQuery,
): Promise<object> {
  const { after } = query;
  if (after !== undefined && !/^\d+\/[\d:]*$/.test(after))
    throw new ApiProblem(400, 'the query is not valid: after must be the `next` of a previous page');
  const page = await options.ledger.list(after, PAGE_COUNTERS);
  if (!page) throw new ApiProblem(501, 'the counters cannot be listed: memcached keeps no list');
  const rules = options.rules();
  const shown = shownBy(true, options.hash);
  const counters: object[] = [];
  for await (const keys of inSlices(page.keys, COUNTERS_A_TURN)) {
    const known = rules ? keys.flatMap((key) => chosen(counterOf(rules, key, options.decider), query)) : [];
    const debits = known.map(({ key, limit }) => debitOf({ key }, limit, 0, false));
    const states = debits.length > 0 ? await statesOf(options, debits) : [];
    for (const [at, counter] of known.entries()) counters.push({ ...describe(counter, shown), ...states[at] });
  }
  return { looked: page.keys.length, counters, ...(page.next !== undefined && { next: page.next }) };
}

function chosen(found: KnownCounter | undefined, { domain, rule }: ListQuery): readonly KnownCounter[] {
  if (!found || (domain !== undefined && found.domain !== domain)) return [];
  return rule === undefined || found.rule.path === rule ? [found] : [];
}

const describe = ({ domain, entries, rule: { path }, limit }: KnownCounter, shown: Shown): object => ({
  domain,
  entries: entries.map(({ key, value }) => ({ key, value: shown(value) })),
  rule: path,
  limit: describeLimit(limit),
  algorithm: namedAlgorithmOf(limit.limit),
});

/** The timeout of the store. */
const STORE_TIMEOUT_MS = 1_000;

/** A limit of a descriptor, and its counter. */
interface FoundCounter {
  readonly rule: Rule;
  readonly limit: RuleLimit;
  readonly debit: Debit;
}

/** The counters of a descriptor, for operators to see and change. */
interface DescriptorCounters {
  /** Under an exemption, the counters of the rule, which applies again when it ends. */
  readonly counters: readonly FoundCounter[];
  readonly override?: StandingOverride;
}

/** @throws ApiProblem  404: no limit applies */
function countersOf(options: AdminOptions, name: string, entries: readonly Entry[]): DescriptorCounters {
  const { clock, overrides } = options.decider;
  const rules = options.rules();
  const matched = rules && atTime(matchCounter(rules, name, entries), clock);
  const applied = matched && (overrides?.apply(matched, name, entries) ?? matched);
  const override = matched && applied !== matched ? overrides?.of(matched, name, entries) : undefined;
  const found = override?.effect.kind === 'exempt' ? matched : applied;
  if (found?.kind !== 'limited') {
    const why =
      found?.kind === 'unlimited'
        ? `${found.rule.path} is unlimited${found.rule.schedule ? ' at this time' : ''}`
        : 'no rule applies; explain says why';
    throw new ApiProblem(404, `the descriptor has no counters: ${why}`);
  }
  const counters = found.limits.map((limit): FoundCounter => {
    const counter = options.counters(limit.limit, name, found.entries);
    return {
      rule: found.rule,
      limit,
      debit: heldBy(debitOf(counter, limit, 0, false), holderOf(found.id ?? '')),
    };
  });
  return { counters, ...(override && { override }) };
}

/** The entries of an id may be missing: the counter is the same for all ids. */
function matchCounter(rules: RuleTree, domain: string, entries: readonly Entry[]): Match {
  const found = match(rules, domain, { entries, requestLimit: undefined });
  if (found.kind !== 'no_rule') return found;
  const others = withIds(rules, domain, entries).map((sent) =>
    match(rules, domain, { entries: sent, requestLimit: undefined }),
  );
  return others.find(({ kind }) => kind === 'limited') ?? found;
}

/** The states of the counters, in their order. @throws ApiProblem  503: the counters cannot be reached */
async function statesOf(
  options: Pick<AdminOptions, 'ledger'>,
  debits: readonly Debit[],
): Promise<readonly CounterState[]> {
  const fork = await options.ledger.fork(debits, STORE_TIMEOUT_MS);
  for (const debit of debits) {
    const failure = fork.failureOf(debit);
    if (failure !== undefined) throw new ApiProblem(503, failure);
  }
  return debits.map((debit) => counterState(debit.limit, fork.stateOf(debit), fork.nowMs(debit)));
}

const describeCounter = ({ rule, limit, debit: { key } }: FoundCounter, state: CounterState): object => ({
  rule: rule.path,
  ...placeFields(rule.place),
  ...(limit.label.name !== '' && { name: limit.label.name }),
  limit: describeLimit(limit),
  algorithm: namedAlgorithmOf(limit.limit),
  counter: key,
  ...state,
});
