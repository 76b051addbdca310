import { createResponse, type Extras, toStatus } from '../../edge/rls/service.ts';
import { decodeRequest } from '../../edge/wire/codec.ts';
import { responseToJson } from '../../edge/wire/json.ts';
import type { WireRequest } from '../../edge/wire/wire.ts';
import { type Answer, type Decider, decide, type RateLimitRequest } from '../../engine/decide/decide.ts';
import { matchDescriptors } from '../../engine/decide/plan.ts';
import { findUnmet } from '../../engine/decide/unmet.ts';
import { describeWouldRefuse, wouldRefuse } from '../../engine/decide/would-refuse.ts';
import type { Debit, Entries } from '../../engine/ledger/debit.ts';
import type { Ledger, LedgerFork } from '../../engine/ledger/ledger.ts';
import { type Entry, match, withIds } from '../../engine/rules/match/match.ts';
import { missingText } from '../../engine/rules/match/required-keys.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import { passesInMs } from '../../operate/admin/shown.ts';
import type { SharedChild } from '../lab/answers/counters.ts';
import type { ExplainedDecision, ExplainedDescriptor, ExplainedLimit, Explanation } from '../lab/answers/explain.ts';
import { sourceTexts } from '../lab/counters/counter-state.ts';
import { type NamedChild, namedChildren, readChildren } from '../lab/counters/shared-children.ts';
import { explainDescriptors, type ObservedDebit } from './explain-descriptors.ts';

/** What explains a request. */
interface ExplainOptions {
  readonly decider: Decider & { readonly ledger: Pick<Ledger, 'fork' | 'health'> };
  readonly extras: Extras;
}

/**
 * Answers a request as the service would now, on copies of its counters: runs the same code, and charges nothing.
 */
export async function explain(wire: WireRequest, options: ExplainOptions): Promise<Explanation> {
  const { decider } = options;
  let request: RateLimitRequest;
  try {
    request = decodeRequest(wire);
  } catch (cause) {
    return { status: 400, error: toStatus(cause).details, descriptors: [] };
  }
  const tree = decider.rules();
  const counted = { ...request, ...(tree && findUnmet(request, tree)) };
  const applied = tree ? matchDescriptors(counted, tree, decider) : [];
  const named = counted.descriptors.map(({ entries }, at) =>
    tree ? namedChildren(applied[at], { domain: counted.domain, entries }, tree, decider.counters) : [],
  );
  const copies = new CopiedCounters(decider.ledger, named);
  const decided = await decideOn(copies, request, wire, options);
  const descriptors = tree ? await explainDescriptors(tree, counted, { applied, ...copies.found }, decider) : [];
  if ('error' in decided) return { status: 400, error: decided.error, descriptors };
  const { answer, response } = decided;
  return {
    status: response.overallCode === 'OVER_LIMIT' ? 429 : 200,
    answer: response,
    descriptors,
    decision: explainDecision(answer, tree?.domains.get(request.domain)?.spend ?? decider.spend, descriptors),
    ...storeWarning(decider.ledger, copies.found.observed),
  };
}

/** Adds empty ids to descriptors that match no rule without them. */
export function withMissingIds(request: WireRequest, rules: RuleTree | undefined): WireRequest {
  const { domain } = request;
  const isLimited = (entries: readonly Entry[]): boolean =>
    rules !== undefined && 'rule' in match(rules, domain, { entries, requestLimit: undefined });
  const descriptors = request.descriptors.map((one) => {
    const { entries } = one;
    const sent = rules && !isLimited(entries) ? withIds(rules, domain, entries).find(isLimited) : undefined;
    return sent ? { ...one, entries: [...sent] } : one;
  });
  return { ...request, descriptors };
}

/** The answer and its JSON, or why there is none. */
async function decideOn(
  ledger: CopiedCounters,
  request: RateLimitRequest,
  wire: WireRequest,
  { decider, extras }: ExplainOptions,
) {
  try {
    const estimates = decider.estimates && { estimates: { of: decider.estimates.of, note: () => {} } };
    const answer = await decide(request, { ...decider, ...estimates, ledger }, Number.POSITIVE_INFINITY);
    const response = responseToJson(createResponse(wire, answer, extras));
    return { answer, response };
  } catch (cause) {
    return { error: toStatus(cause).details };
  }
}

/** Answers the debits of a request from copies of their counters, and observes them. */
class CopiedCounters {
  readonly #ledger: Pick<Ledger, 'fork'>;
  readonly #named: readonly (readonly NamedChild[])[];
  found: { readonly observed: readonly ObservedDebit[]; readonly children: readonly (readonly SharedChild[])[] } = {
    observed: [],
    children: [],
  };

  /** @param named  the children of shared limits, by descriptor */
  constructor(ledger: Pick<Ledger, 'fork'>, named: readonly (readonly NamedChild[])[]) {
    this.#ledger = ledger;
    this.#named = named;
  }

  async debit(request: readonly Debit[], how: Parameters<Decider['ledger']['debit']>[1]): Promise<Entries> {
    const others = this.#named.flatMap((children) => children.map(({ debit }) => debit));
    const fork = await copyCounters([...request, ...others], this.#ledger, how.timeoutMs);
    const children = this.#named.map((one) => readChildren(one, fork));
    const before = request.map((debit) => fork.readState(debit));
    const entries = await fork.ledger.debit(request, how);
    const changed = new Set<string>();
    const observed = request.map((debit, at) => {
      const entry = entries[at];
      const decision = entry && entry.code !== 'UNAVAILABLE' ? entry : undefined;
      const [nowMs, failure] = [fork.nowMs(debit), fork.findFailure(debit)];
      const isRepeated = changed.has(debit.key);
      if (debit.kind !== 'peek') changed.add(debit.key);
      return { debit, isRepeated, nowMs, failure, before: before[at], after: fork.readState(debit), decision };
    });
    this.found = { observed, children };
    return entries;
  }
}

/** How long to wait for the store to answer again before the counters are read for the second time. */
const MAX_STORE_WAIT_MS = 1_000;

/**
 * Copies the counters of a request within the timeout of a call. If that fails, waits for the store to answer and tries
 * once more, since a store that was slow for a moment would decide the next call.
 */
async function copyCounters(
  request: readonly Debit[],
  ledger: Pick<Ledger, 'fork'>,
  timeoutMs: number,
): Promise<LedgerFork> {
  const copy = await ledger.fork(request, timeoutMs);
  if (request.every((debit) => copy.findFailure(debit) === undefined)) return copy;
  await ledger.fork(request, MAX_STORE_WAIT_MS);
  return ledger.fork(request, timeoutMs);
}

/** Counters may be readable while the store refuses to change them. */
function storeWarning(
  ledger: Pick<Ledger, 'health'>,
  observed: readonly ObservedDebit[],
): Pick<Explanation, 'warning'> {
  const health = ledger.health();
  const areRead = observed.length > 0 && observed.every(({ failure }) => failure === undefined);
  if (health.ready || !areRead) return {};
  const reason = health.reason.replace(/\.$/, '');
  return { warning: `the store does not count (${reason}): calls follow on_store_failure` };
}

function explainDecision(
  answer: Answer,
  spend: Decider['spend'],
  descriptors: readonly ExplainedDescriptor[],
): ExplainedDecision {
  const { overallCode, shadowed, delayMs, retryAfterMs, unmet } = answer;
  const spared = describeWouldRefuse(answer);
  const refusing = overallCode === 'OVER_LIMIT' ? findRefusing(answer, descriptors) : [];
  const decidedBy = refusing.map(({ descriptor, limit: { rule, limit } }) => ({ descriptor, rule, limit }));
  const over = refusing.map(({ limit }) => limit);
  const why = explainCode(answer, over, descriptors);
  return {
    code: overallCode,
    spend,
    decidedBy,
    why: unmet ? `${unmet.missing.map(({ requirement }) => missingText(requirement)).join('; ')}: ${why}` : why,
    passesInMs: passesInMs(retryAfterMs),
    delayMs,
    ...(shadowed && { shadowMode: true }),
    ...(spared && { wouldRefuse: spared }),
  };
}

/** The limits that refuse, without quotas while another one has room. */
function findRefusing(answer: Answer, descriptors: readonly ExplainedDescriptor[]) {
  const spared = new Set(wouldRefuse(answer).flatMap((one) => (one.reason === 'quota' ? [one.descriptor] : [])));
  return descriptors.flatMap(({ limits }, descriptor) =>
    limits
      .filter((limit) => isOver(limit) && !limit.shadow && !(limit.quota && spared.has(descriptor)))
      .map((limit) => ({ descriptor, limit })),
  );
}

const isOver = ({ code }: ExplainedLimit): boolean => code === 'OVER_LIMIT';

function explainCode(
  answer: Answer,
  over: readonly ExplainedLimit[],
  descriptors: readonly ExplainedDescriptor[],
): string {
  const isRefused = answer.overallCode === 'OVER_LIMIT';
  if (answer.shadowed) return 'a limit is exceeded, and SHADOW_MODE lets the request pass';
  const isBlocked = descriptors.some(({ override, limits }) => override?.effect === 'block' && limits.some(isOver));
  if (isRefused && isBlocked) return 'an override blocks it';
  if (isRefused && over.every(({ source }) => source === 'deny')) return sourceTexts.deny;
  if (isRefused) return over.length === 1 ? 'a limit is exceeded' : `${over.length} limits are exceeded`;
  const spared = wouldRefuse(answer);
  if (spared.some(({ reason }) => reason === 'quota'))
    return 'quota rules refuse a request only if all of them are over their limits';
  if (spared.length > 0) return 'only limits in shadow mode are exceeded';
  const limits = descriptors.flatMap((descriptor) => descriptor.limits);
  for (const policy of ['allow', 'local'] as const)
    if (limits.some(({ source }) => source === policy)) return sourceTexts[policy];
  if (limits.some(({ code }) => code !== undefined)) return 'every limit has room';
  if (descriptors.every(({ outcome }) => outcome === 'no_domain'))
    return 'no rules have the domain: nothing is limited';
  if (descriptors.some(({ override }) => override?.effect === 'exempt')) return 'an override exempts it';
  return descriptors.some(({ outcome }) => outcome === 'unlimited')
    ? 'the rule is unlimited'
    : 'no limit applies: nothing is counted';
}
