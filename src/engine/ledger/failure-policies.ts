import type { Spend, StoreFailurePolicy } from '../algorithms/limit.ts';
import type { Reply, Unavailable } from '../backends/backend.ts';
import { scatter } from '../backends/scatter.ts';
import { hasHolders, isRateLimit, nominalCapacity } from '../holds/limits.ts';
import type { Debit, Entries, LedgerEntry } from './debit.ts';
import { type Debts, RETRY_MS } from './debts.ts';
import type { Refusals } from './refusals.ts';

interface FailurePolicyOptions {
  readonly debts: Debts;
  /** Refusals that are known without the backends. */
  readonly remembered: Refusals | undefined;
  /** Whether these hold for all limits; otherwise for those that this process counts by itself. */
  readonly keepsRefusals: boolean;
}

/** Answers debits that the backends did not count, by the policies of their limits. */
export class FailurePolicies {
  readonly #options: FailurePolicyOptions;

  constructor(options: FailurePolicyOptions) {
    this.#options = options;
  }

  /** If a limit that failed has no policy, the request has no answer, unless it is known to be refused by another. */
  answer(request: readonly Debit[], asked: Entries, spend: Spend): Entries {
    const replies = asked.map((reply, at) => this.#recalled(request[at], reply) ?? reply);
    const isKnown = request.some(({ blocks }, at) => blocks && replies[at] !== asked[at]);
    const choosePolicy = (debit: Debit, at: number): StoreFailurePolicy | undefined =>
      policyFor(debit, replies[at]) ?? (isKnown && isUnavailable(replies[at]) ? 'allow' : undefined);
    if (request.some((debit, at) => isUnavailable(replies[at]) && !choosePolicy(debit, at))) return replies;
    const isRefused =
      spend !== 'each' &&
      request.some((debit, at) => {
        const reply = replies[at];
        const isDenied = policyFor(debit, reply) === 'deny' && debit.kind !== 'give_back';
        return debit.blocks && (isDenied || reply?.code === 'OVER_LIMIT');
      });
    const answered = scatter(request, choosePolicy, (policy, debits, at) => {
      if (policy === undefined) return at.flatMap((place) => replies[place] ?? []);
      const mayBeCounted = (one: number): boolean => isUnknown(replies[at[one] ?? 0]);
      if (policy === 'local') return this.#options.debts.count(debits, spend, { isRefused, isUnknown: mayBeCounted });
      return debits.map((debit, one) => this.#answerBy(policy, debit, isRefused || mayBeCounted(one)));
    });
    return 'then' in answered ? replies : answered; // nothing here is asynchronous
  }

  /** A refusal that is known without the backend. */
  #recalled(debit: Debit | undefined, reply: Reply): LedgerEntry | undefined {
    if (!debit || !isUnavailable(reply)) return undefined;
    const { remembered, keepsRefusals } = this.#options;
    const isLocal = policyFor(debit, reply) === 'local';
    const known = isLocal || keepsRefusals ? remembered?.recall(debit) : undefined;
    return known && isLocal ? { ...known, degraded: 'local' } : known;
  }

  /** @param isDone  hits that the debit gives back need not be kept for the backend */
  #answerBy(policy: 'allow' | 'deny', debit: Debit, isDone: boolean): LedgerEntry {
    if (debit.kind !== 'give_back') return policyAnswers[policy](debit);
    // slots that are not released in time expire; a debt is of one counter, and a shared limit has one per child
    const isKept = !hasHolders(debit.limit) && !debit.share;
    if (!isDone && isKept) this.#options.debts.giveBack(debit, false);
    return { ...policyAnswers.allow(debit), degraded: policy };
  }
}

/** The policy that answers a debit without a reply, if any. An overloaded process counts what it can in parts. */
function policyFor({ limit, policy }: Debit, reply: Reply | undefined): StoreFailurePolicy | undefined {
  if (!isUnavailable(reply)) return undefined;
  const counts = reply.isOverload && policy.onOverload !== 'error' && isRateLimit(limit);
  return counts ? 'local' : policy.onStoreFailure;
}

export const isUnavailable = (reply: Reply | undefined): reply is Unavailable => reply?.code === 'UNAVAILABLE';

/** Whether the backend may have counted an operation without an answer. */
export const isUnknown = (reply: Reply | undefined): boolean => isUnavailable(reply) && reply.isUnknown === true;

const unknown = { hitsBefore: 0, retryAfterMs: 0, durationUntilResetMs: 0, delayMs: 0, soft: false } as const;

/** The answers of policies that do not count. */
const policyAnswers = {
  allow: ({ limit }: Debit): LedgerEntry => ({
    ...unknown,
    code: 'OK',
    limitRemaining: nominalCapacity(limit),
    degraded: 'allow',
  }),
  deny: ({ limit }: Debit): LedgerEntry => ({
    ...unknown,
    code: 'OVER_LIMIT',
    hitsBefore: nominalCapacity(limit),
    limitRemaining: 0,
    retryAfterMs: RETRY_MS,
    durationUntilResetMs: RETRY_MS,
    degraded: 'deny',
  }),
} as const;
