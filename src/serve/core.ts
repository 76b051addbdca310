import { unitMs } from '../algorithms/limit.ts';
import { countersOf } from '../backends/open.ts';
import type { Decider } from '../decide.ts';
import type { Hash } from '../hashed.ts';
import { createEstimates } from '../ledger/estimates.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { type OpenStore, openStore } from '../ledger/open.ts';
import { createStoreBudget } from '../ledger/store-budget.ts';
import { Overrides } from '../overrides.ts';
import type { ProcessContext } from '../process-context.ts';
import { createResponseHeaders } from '../rls/headers.ts';
import { createDynamicMetadata } from '../rls/metadata.ts';
import { ReadinessCheck } from '../rls/readiness.ts';
import type { Extras } from '../rls/service.ts';
import type { StoreTraits } from '../rules/fit.ts';
import type { OpenRules } from '../rules/open.ts';
import type { RuleTree } from '../rules/tree.ts';
import { traitsOf } from '../settings/store-traits.ts';
import type { Settings } from '../settings.ts';
import { openParts, type Part } from '../start-up.ts';
import { openHash } from './open-hash.ts';

/** The counters and rules of a process, and the parts that depend on them. */
export interface Core<R extends OpenRules = OpenRules> extends Part {
  readonly store: OpenStore;
  readonly rules: R;
  /** The dependencies of decisions. */
  readonly decider: Decider & { readonly ledger: Ledger; readonly overrides: Overrides };
  /** Headers and metadata of answers. */
  readonly extras: Extras;
  /** Hashes values that callers sent, if `HASH_KEYS` is set. */
  readonly hash: Hash | undefined;
  /** Resolves when the hashes are those of all instances, or the store cannot be reached. */
  shareHashKey(): Promise<void>;
  /** Close it before all other parts. */
  readonly readiness: ReadinessCheck;
}

/**
 * @param openRules  opens the rules: from their source, or from the primary process
 * @throws CannotStart if rules at a plain path are invalid, or the settings of the store or the control plane cannot be
 * used
 */
export function openCore<R extends OpenRules>(
  { counters, decisions, answers, admin, readiness }: Settings,
  openRules: (store: StoreTraits) => Promise<R>,
  context: ProcessContext,
): Promise<Core<R>> {
  const { clock } = context;
  return openParts(async (add) => {
    const store = add(await openStore(counters, context));
    const { hash, share } = add(openHash(admin, counters.store.kind === 'redis' ? store.records : undefined));
    const rules = await openRules(traitsOf(counters));
    add(rules.book);
    add(rules.candidate);
    return {
      ...{ store, rules, hash, shareHashKey: share },
      decider: {
        ...{ ...decisions, ledger: store.ledger, clock, estimates: createEstimates() },
        rules: hash ? withHashedNames(rules.book.rules, hash) : rules.book.rules,
        counters: countersOf(counters, clock),
        storeBudget: createStoreBudget(store.lateness.latenessMs, counters.timeoutMs),
        overrides: new Overrides(clock, (unit) => unitMs[unit]),
      },
      extras: {
        headers: createResponseHeaders(answers.headers),
        metadata: createDynamicMetadata(answers.metadata),
      },
      readiness: new ReadinessCheck(readiness, { rules: rules.book.rules, store, clock }),
    };
  });
}

/** The same rules, except that statistics show hashes of callers' values. */
function withHashedNames(rules: () => RuleTree | undefined, hash: Hash): () => RuleTree | undefined {
  let source: RuleTree | undefined;
  let named: RuleTree | undefined;
  return () => {
    const tree = rules();
    if (tree !== source) named = tree && { ...tree, shownValue: hash };
    source = tree;
    return named;
  };
}
