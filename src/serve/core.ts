import type { Hash } from '../base/hashed.ts';
import { createResponseHeaders } from '../edge/rls/headers.ts';
import { ReadinessCheck } from '../edge/rls/health.ts';
import { createDynamicMetadata } from '../edge/rls/metadata.ts';
import type { Extras } from '../edge/rls/service.ts';
import { unitMs } from '../engine/algorithms/limit.ts';
import type { Decider } from '../engine/decide/decide.ts';
import { Overrides } from '../engine/decide/overrides.ts';
import { createEstimates } from '../engine/ledger/estimates.ts';
import type { Ledger } from '../engine/ledger/ledger.ts';
import { createStoreBudget } from '../engine/ledger/store-budget.ts';
import type { StoreTraits } from '../engine/rules/compile/fit.ts';
import type { RuleTree } from '../engine/rules/match/tree.ts';
import type { Settings } from '../settings/settings.ts';
import { traitsOf } from '../settings/store-traits.ts';
import { countersOf } from './open/backends.ts';
import { openHash } from './open/hash.ts';
import { type OpenStore, openStore } from './open/ledger.ts';
import type { OpenRules } from './open/rules.ts';
import type { ProcessContext } from './parts/process-context.ts';
import { openParts, type Part } from './parts/start-up.ts';

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
