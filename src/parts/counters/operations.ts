import { fields, type ValueOf, whole } from '../../base/shape.ts';
import { descriptorText } from '../../edge/listing/descriptor-text.ts';
import { MAX_COUNT } from '../../engine/algorithms/limit.ts';
import { parseAmount } from '../../engine/algorithms/money.ts';
import { fitsWildcards } from '../../engine/decide/overrides.ts';
import type { Entry } from '../../engine/rules/match/match.ts';
import { operation } from '../../operate/admin/api.ts';
import { askPart } from '../../operate/admin/ask-part.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import {
  type ChangeBody,
  changeBody,
  changeFields,
  DESCRIPTOR_QUERY,
  domain,
  readDescriptor,
  refuseHashes,
  refuseUnknownRule,
  refuseWithoutWildcard,
  text,
} from '../../operate/admin/parameters.ts';
import { ApiProblem, type Finding, foundIn } from '../../operate/admin/problem.ts';
import { describeOverride, shownBy, shownEntries } from '../../operate/admin/shown.ts';
import type { Answers } from '../../operate/answers/all.ts';
import type { OperatorPart } from '../../serve/control/part.ts';
import type { CounterState } from '../lab/answers/counters.ts';
import type { ChangedCounters, DescriptorCounters, ListedCounters } from '../lab/answers/listed-counters.ts';
import type { CounterChange, ListQuery, NamedCounter, NamedCounters } from './named-counters.ts';
import type { CounterQuestion } from './open.ts';

/** Operations that show and change the counters of a descriptor, or list all counters. */
export const counterOperations = (options: AdminOptions): OperatorPart => ({
  operations: [
    operation('GET /api/v1/counters', {
      summary: 'the counters of a descriptor, or a page of all counters',
      need: 'read',
      domains: 'named',
      query: counterQuery,
      answers: 'Counters with their states. `next` is present if there are more pages.',
      answer: ({ query }) => counters(options, query),
    }),
    operation('GET /api/v1/overrides/preview', {
      summary: 'how many counters an override with wildcards would touch',
      need: 'read',
      domains: 'named',
      query: previewQuery,
      answers: `\`counters\` that exist and whose values fit, and up to ${MAX_EXAMPLES} of their descriptors. \`isAtLeast\`: there are more counters than were examined.`,
      answer: ({ query }) => preview(options, query),
    }),
    operation('POST /api/v1/counters/reset', {
      summary: 'resets the counters of a descriptor in every process of every instance',
      need: 'operate',
      domains: 'named',
      body: changeBody,
      answers: 'The counters before and after.',
      answer: ({ client, body }) => change(options, client.name, body, { kind: 'reset' }),
    }),
    operation('POST /api/v1/counters/grant', {
      summary: 'refunds hits, or an amount of money, to the counters of a descriptor, at most as much as was used',
      need: 'operate',
      domains: 'named',
      body: grantBody,
      answers: 'The counters before and after. Those that count in another unit are unchanged.',
      answer: ({ client, body }) => change(options, client.name, body, { kind: 'grant', ...readGrant(body) }),
    }),
  ],
});

/** Asks one of the processes that answer requests. */
const askOne = async <T>(options: AdminOptions, question: CounterQuestion, isChange = false): Promise<T> =>
  foundIn((await options.askOne({ kind: 'part', part: 'counters', question, isChange })) as Finding<T> | undefined); // by the same capability

const counterQuery = fields(
  {},
  {
    domain: { ...domain, description: 'required with descriptor' },
    descriptor: { ...text, description: `${DESCRIPTOR_QUERY}; absent: all counters, a page at a time` },
    rule: { ...text, description: 'only without descriptor: the path of one rule' },
    after: { ...text, maxLength: 200, description: 'only without descriptor: `next` of the previous page' },
  },
);

const MAX_EXAMPLES = 5;

const previewQuery = fields({ domain, descriptor: { ...text, description: DESCRIPTOR_QUERY } });

const grantBody = fields(changeFields, {
  hits: { ...whole, minimum: 1, maximum: MAX_COUNT, description: 'or `amount`' },
  amount: { ...text, description: 'of budgets: `12.50 USD`' },
});

/** @throws ApiProblem  400: not exactly one of both, or not an amount of money */
function readGrant(given: ValueOf<typeof grantBody>) {
  if ((given.hits === undefined) === (given.amount === undefined))
    throw new ApiProblem(400, 'the body is not valid: either hits or amount is required');
  if (given.amount === undefined) return { hits: given.hits ?? 0, currency: undefined };
  const money = parseAmount(given.amount);
  if (typeof money === 'string')
    throw new ApiProblem(
      400,
      `the body is not valid: amount must be one such as 12.50 USD, got '${given.amount}': ${money}`,
    );
  return { hits: money.billionths, currency: money.currency };
}

async function counters(
  options: AdminOptions,
  query: ValueOf<typeof counterQuery>,
): Promise<DescriptorCounters | ListedCounters> {
  if (query.descriptor === undefined) return list(options, query);
  if (query.domain === undefined)
    throw new ApiProblem(400, 'the query is not valid: domain is required with descriptor');
  const entries = readDescriptor(query.descriptor);
  const named = { domain: query.domain, entries };
  const { counters: all, override } = await askOne<NamedCounters>(options, { kind: 'read', ...named });
  return {
    ...named,
    ...(override && { override: describeOverride(override) }),
    counters: all.map(({ about, state }) => ({ ...about, ...state })),
  };
}

/** @param isPlain  whether values are not hashed */
async function list(options: AdminOptions, query: ListQuery, isPlain = false): Promise<ListedCounters> {
  const { after, rule } = query;
  if (rule !== undefined) refuseUnknownRule(options.rules(), rule);
  if (after !== undefined && !/^\d+\/[\d:]*$/.test(after))
    throw new ApiProblem(400, 'the query is not valid: after must be the `next` of a previous page');
  const page = await askOne<ListedCounters>(options, { kind: 'list', query });
  const shown = shownBy(true, isPlain ? undefined : options.hash);
  return {
    ...page,
    counters: page.counters.map(({ entries, ...counter }) => ({
      ...counter,
      entries: shownEntries(entries, shown),
    })),
  };
}

/** Pages of counters that are examined for a preview: about 1,000 counters each. */
const MAX_PAGES = 20;

async function preview(
  options: AdminOptions,
  { domain: name, descriptor: written }: ValueOf<typeof previewQuery>,
): Promise<Answers['GET /api/v1/overrides/preview']> {
  const entries = readDescriptor(written);
  refuseWithoutWildcard(entries);
  const keys = entries.map(({ key }) => key).join();
  const found: (readonly Entry[])[] = [];
  let after: string | undefined;
  for (let pages = 0; pages < MAX_PAGES; pages++) {
    const page: ListedCounters = await list(options, { domain: name, ...(after !== undefined && { after }) }, true);
    for (const one of page.counters)
      if (one.entries.map(({ key }) => key).join() === keys && fitsWildcards({ entries }, one.entries))
        found.push(one.entries);
    after = page.next;
    if (after === undefined) break;
  }
  const shown = shownBy(true, options.hash);
  const examples = found.slice(0, MAX_EXAMPLES).map((one) => descriptorText(shownEntries(one, shown)));
  return { counters: found.length, isAtLeast: after !== undefined, examples };
}

/** Changes every counter of a descriptor, after writing the change to the audit log. */
async function change(
  options: AdminOptions,
  who: string,
  { domain: name, descriptor: entries, reason: why }: ChangeBody,
  how: CounterChange,
): Promise<ChangedCounters> {
  refuseHashes(entries, options.hash);
  const ofDescriptor = { domain: name, entries };
  const before = await askOne<NamedCounters>(options, { kind: 'read', ...ofDescriptor });
  const what = auditedCounter(options, ofDescriptor, before.counters[0]?.rule, how);
  if (how.kind === 'grant' && before.counters.every(({ state }) => state.currency !== how.currency))
    throw new ApiProblem(
      409,
      how.currency === undefined
        ? 'the descriptor has only budgets: give an amount such as 12.50 USD'
        : `the descriptor has no limit in ${how.currency}: give hits, or an amount in the currency of its budget`,
    );
  const planned = before.counters.map((counter) => plannedState(counter, how));
  const states = before.counters.map(({ state }) => state);
  const after = await options.audit.change(
    { who, change: how.kind, reason: why, what, before: states, after: planned },
    async () => {
      const question = { kind: 'change', ...ofDescriptor, change: how } as const;
      const changed = await askOne<NamedCounters>(options, question, true);
      const keys = changed.counters.map(({ key }) => key);
      await askPart(options, 'counters', { kind: how.kind === 'reset' ? 'forget' : 'recheck', keys });
      return changed;
    },
  );
  return {
    ...ofDescriptor,
    ...(before.override && { override: describeOverride(before.override) }),
    counters: after.counters.map(({ about, state }, at) => ({
      ...about,
      ...state,
      before: states[at] as CounterState, // one for each
    })),
  };
}

/** What is changed, for the audit log. */
function auditedCounter(
  { hash }: Pick<AdminOptions, 'hash'>,
  { domain: name, entries }: { readonly domain: string; readonly entries: readonly Entry[] },
  rule: string | undefined,
  how: CounterChange,
) {
  const shown = shownBy(true, hash);
  return {
    domain: name,
    descriptor: descriptorText(shownEntries(entries, shown)),
    rule,
    ...(how.kind === 'grant' && { hits: how.hits, currency: how.currency }),
  };
}

/** The expected state after the change, for the audit log. */
function plannedState({ state: { used, remaining, currency }, wholeRemaining }: NamedCounter, how: CounterChange) {
  const unit = currency !== undefined && { currency };
  if (how.kind === 'reset') return { used: 0, remaining: wholeRemaining, ...unit };
  const back = currency === how.currency ? Math.min(how.hits, used) : 0;
  return { used: used - back, remaining: remaining + back, ...unit };
}
