import { inSlices } from '../../base/slices.ts';
import { namedAlgorithmOf } from '../../engine/algorithms/index.ts';
import { counterOf, type KnownCounter } from '../../engine/decide/counter-key.ts';
import type { Decider } from '../../engine/decide/decide.ts';
import { debitOf } from '../../engine/ledger/debit.ts';
import { describeLimit } from '../../engine/rules/match/describe.ts';
import { statesOf } from './counter-states.ts';
import type { AdminOptions } from './options.ts';
import { ApiProblem } from './problem.ts';
import { type Shown, shownBy } from './shown-value.ts';

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
