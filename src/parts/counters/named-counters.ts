import { inTurns } from '../../base/slices.ts';
import { placeFields } from '../../edge/listing/describe.ts';
import type { CounterKey } from '../../engine/backends/key.ts';
import { findCounter, type KnownCounter } from '../../engine/decide/counter-key.ts';
import type { Decider } from '../../engine/decide/decide.ts';
import { describeApplied, type StandingOverride } from '../../engine/decide/overrides.ts';
import { hashHolder } from '../../engine/holds/claim.ts';
import { namedAlgorithm } from '../../engine/holds/limits.ts';
import { claimShare } from '../../engine/holds/sharing.ts';
import { createDebit, type Debit, heldBy, sharedBy } from '../../engine/ledger/debit.ts';
import type { Ledger, LedgerFork } from '../../engine/ledger/ledger.ts';
import { describeLimit } from '../../engine/rules/match/describe-limit.ts';
import { atTime, type Entry, type Match, match, withIds } from '../../engine/rules/match/match.ts';
import type { Rule, RuleLimit, RuleTree } from '../../engine/rules/match/tree.ts';
import { ApiProblem } from '../../operate/admin/problem.ts';
import type { CounterState } from '../lab/answers/counters.ts';
import type { DescriptorCounters, ListedCounter, ListedCounters } from '../lab/answers/listed-counters.ts';
import { counterState } from '../lab/counters/counter-state.ts';
import { type NamedChild, namedChildren, readChildren } from '../lab/counters/shared-children.ts';

/** Names the counters by their descriptor. */
export interface CountedDescriptor {
  readonly domain: string;
  readonly entries: readonly Entry[];
}

/** A counter of a descriptor. */
export interface NamedCounter {
  readonly key: CounterKey;
  /** The path of its rule. */
  readonly rule: string;
  /** Shown on pages besides its state. */
  readonly about: Omit<DescriptorCounters['counters'][number], keyof CounterState>;
  readonly state: CounterState;
  /** The remainder of its limit after a reset. */
  readonly wholeRemaining: number;
}

/** The counters of a descriptor, for operators to read and change. */
export interface NamedCounters {
  /** Under an exemption, the counters of the rule, which applies again when it ends. */
  readonly counters: readonly NamedCounter[];
  readonly override?: StandingOverride;
}

/** A change of the counters of a descriptor: of all, or hits for those that count in this currency, or in none. */
export type CounterChange =
  | { readonly kind: 'reset' }
  | { readonly kind: 'grant'; readonly hits: number; readonly currency?: string | undefined };

export interface ListQuery {
  readonly domain?: string;
  readonly rule?: string;
  readonly after?: string;
}

/** A decider, as far as its counters are concerned. */
interface CountingDecider extends Pick<Decider, 'rules' | 'counters' | 'clock' | 'overrides'> {
  readonly ledger: Pick<Ledger, 'fork' | 'forget' | 'debit' | 'list'>;
}

/** Maximum wait for the store when operators read or change counters. */
const OPERATOR_TIMEOUT_MS = 1_000;

/** Counters examined for each page of a listing. */
const PAGE_COUNTERS = 1_000;

/** Counters read from the store in one call, and in one turn of the event loop. */
const COUNTERS_A_CALL = 100;

/**
 * The counters of a descriptor.
 *
 * @throws ApiProblem  404: no limit applies; 503: the counters cannot be reached
 */
export async function readCounters(descriptor: CountedDescriptor, decider: CountingDecider): Promise<NamedCounters> {
  const { found, named, override } = findCounters(descriptor, decider);
  const fork = await readFork(
    [...found, ...named].map(({ debit }) => debit),
    decider,
  );
  const children = readChildren(named, fork);
  return {
    counters: found.map(({ rule, limit, debit }) => ({
      key: debit.key,
      rule: rule.path,
      about: { ...describeFound({ rule, limit, debit }), ...(children.length > 0 && { children }) },
      state: counterState(limit.limit, fork.readState(debit), fork.nowMs(debit), debit),
      wholeRemaining: counterState(limit.limit, undefined, 0, debit).remaining,
    })),
    ...(override && { override }),
  };
}

/**
 * Changes the counters of a descriptor.
 *
 * @returns all of them after the change
 * @throws ApiProblem  as `readCounters`
 */
export async function changeCounters(
  descriptor: CountedDescriptor,
  change: CounterChange,
  decider: CountingDecider,
): Promise<NamedCounters> {
  for (const counter of findCounters(descriptor, decider).found) {
    if (change.kind === 'reset') await reset(counter, decider);
    else if (counter.limit.limit.currency === change.currency) await grant(counter, change.hits, decider);
  }
  return readCounters(descriptor, decider);
}

async function reset({ debit, limit }: FoundCounter, { ledger }: CountingDecider): Promise<void> {
  const failed = await ledger.forget(debit, limit.limit, limit.policy);
  if (failed) throw new ApiProblem(503, failed.reason);
}

async function grant({ debit }: FoundCounter, hits: number, { ledger }: CountingDecider): Promise<void> {
  const back: Debit = { ...debit, kind: 'give_back', hits };
  const [entry] = await ledger.debit([back], { spend: 'each', timeoutMs: OPERATOR_TIMEOUT_MS });
  if (entry?.code === 'UNAVAILABLE') throw new ApiProblem(503, entry.reason);
  if (entry?.degraded) throw new ApiProblem(503, 'store unavailable; refund queued');
}

/**
 * Reads one page: the counters among about `PAGE_COUNTERS` keys that belong to a current rule.
 *
 * @throws ApiProblem  501: the store cannot list; 503: the counters cannot be reached
 */
export async function listCounters(query: ListQuery, decider: CountingDecider): Promise<ListedCounters> {
  const page = await decider.ledger.list(query.after, PAGE_COUNTERS);
  if (!page) throw new ApiProblem(501, 'counters cannot be listed: memcached keeps no list of keys');
  const rules = decider.rules();
  const counters: ListedCounter[] = [];
  for await (const keys of inTurns(page.keys, COUNTERS_A_CALL)) {
    const known = rules ? keys.flatMap((key) => chosen(findCounter(rules, key, decider), query)) : [];
    const debits = known.map(({ key, limit }) => createDebit({ key }, limit, 0, false));
    if (debits.length === 0) continue;
    const fork = await readFork(debits, decider);
    for (const [one, { domain, entries, rule, limit }] of known.entries()) {
      const about = { rule: rule.path, limit: describeLimit(limit), algorithm: namedAlgorithm(limit.limit) };
      const debit = debits[one] as Debit; // one for each
      const state = counterState(limit.limit, fork.readState(debit), fork.nowMs(debit));
      counters.push({ domain, entries, ...about, ...state });
    }
  }
  return { looked: page.keys.length, counters, ...(page.next !== undefined && { next: page.next }) };
}

function chosen(found: KnownCounter | undefined, { domain, rule }: ListQuery): readonly KnownCounter[] {
  if (!found || (domain !== undefined && found.domain !== domain)) return [];
  return rule === undefined || found.rule.path === rule ? [found] : [];
}

/** A limit of a descriptor, and its counter. */
interface FoundCounter {
  readonly rule: Rule;
  readonly limit: RuleLimit;
  readonly debit: Debit;
}

/** @throws ApiProblem  404: no limit applies */
function findCounters(
  { domain, entries }: CountedDescriptor,
  decider: CountingDecider,
): {
  readonly found: readonly FoundCounter[];
  /** The children of a shared limit. */
  readonly named: readonly NamedChild[];
  readonly override: StandingOverride | undefined;
} {
  const { clock, overrides } = decider;
  const rules = decider.rules();
  const matched = rules && atTime(matchCounter(rules, domain, entries), clock);
  const applied = matched && (overrides?.apply(matched, domain, entries) ?? matched);
  const override = matched && applied !== matched ? overrides?.of(matched, domain, entries)?.override : undefined;
  const match = override?.effect.kind === 'exempt' ? matched : applied;
  if (match?.kind !== 'limited') {
    const why =
      match?.kind === 'unlimited'
        ? `${match.rule.path} is unlimited${match.rule.schedule ? ' at this time' : ''}`
        : 'no rule applies; explain says why';
    throw new ApiProblem(404, `the descriptor has no counters: ${why}`);
  }
  const found = match.limits.map((limit): FoundCounter => {
    const counter = decider.counters(limit.limit, domain, match.entries);
    const own = createDebit(counter, limit, 0, false);
    const { id = '', children } = match;
    const held = heldBy(own, { holder: hashHolder(id), threshold: match.threshold });
    const debit = children ? sharedBy(held, claimShare(limit.limit, children)) : held;
    return { rule: match.rule, limit, debit };
  });
  return { found, named: rules ? namedChildren(match, { domain, entries }, rules, decider.counters) : [], override };
}

/** Matches also without the entries of an id, since the counter is the same for all ids. */
function matchCounter(rules: RuleTree, domain: string, entries: readonly Entry[]): Match {
  const found = match(rules, domain, { entries, requestLimit: undefined });
  if (found.kind !== 'no_rule') return found;
  const others = withIds(rules, domain, entries).map((sent) =>
    match(rules, domain, { entries: sent, requestLimit: undefined }),
  );
  return others.find(({ kind }) => kind === 'limited') ?? found;
}

/** Reads counters. @throws ApiProblem  503: they cannot be reached */
async function readFork(debits: readonly Debit[], { ledger }: CountingDecider): Promise<LedgerFork> {
  const fork = await ledger.fork(debits, OPERATOR_TIMEOUT_MS);
  for (const debit of debits) {
    const failure = fork.findFailure(debit);
    if (failure !== undefined) throw new ApiProblem(503, failure);
  }
  return fork;
}

const describeFound = ({ rule, limit, debit: { key } }: FoundCounter): NamedCounter['about'] => ({
  rule: rule.path,
  ...placeFields(rule.place),
  ...(limit.label.name !== '' && { name: limit.label.name }),
  limit: describeApplied(limit),
  algorithm: namedAlgorithm(limit.limit),
  counter: key,
});
