import type { Limit } from '../../engine/algorithms/index.ts';
import type { Operation as StoreOperation } from '../../engine/backends/backend.ts';
import { debitOf } from '../../engine/ledger/debit.ts';
import { descriptorText } from '../../engine/rules/match/descriptor-text.ts';
import { type ApiOperation, operation } from './api.ts';
import { listCounters } from './counter-listing.ts';
import { countersOf, describeCounter, type FoundCounter, STORE_TIMEOUT_MS, statesOf } from './counter-states.ts';
import { type CounterState, counterState, describeOverride } from './explain.ts';
import type { AdminOptions } from './options.ts';
import {
  type ChangeBody,
  DESCRIPTOR_QUERY,
  descriptor,
  domain,
  MAX_HITS,
  noQuery,
  readDescriptor,
  reason,
  refuseHashes,
  text,
} from './parameters.ts';
import { ApiProblem } from './problem.ts';
import { object } from './schema.ts';
import { shownBy } from './shown-value.ts';

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
      body: object({ domain, descriptor, hits: { type: 'integer', minimum: 1, maximum: MAX_HITS }, reason }, [
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
  const giveBack = async ({ debit, limit }: FoundCounter): Promise<void> => {
    const back = debitOf(debit, { ...limit, limit: debit.limit }, -hits, false);
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
