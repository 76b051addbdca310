import type { Clock } from '../clock.ts';
import { hashed } from '../hashed.ts';
import { ReadinessCheck } from '../rls/readiness.ts';
import type { StoreTraits } from '../rules/fit.ts';
import type { RuleTree } from '../rules/tree.ts';
import { traitsOf } from '../settings/store-traits.ts';
import type { Settings } from '../settings.ts';
import { openParts, type Part } from '../start-up.ts';
import type { ProcessContext } from './context.ts';
import type { OpenRules } from './rules.ts';
import { countersOf, type OpenStore, openStore } from './store.ts';

/** The counters and the rules of a process. */
export interface Core<R extends OpenRules = OpenRules> extends Part {
  readonly store: OpenStore;
  readonly rules: R;
  /** Close it before all other parts. */
  readonly readiness: ReadinessCheck;
}

/**
 * @param openRules  opens the rules: from their source, or from the primary process
 * @throws CannotStart if rules at a plain path are invalid, or the settings of the store or the control plane cannot be
 * used
 */
export function openCore<R extends OpenRules>(
  settings: Pick<Settings, 'counters' | 'readiness'>,
  openRules: (store: StoreTraits) => Promise<R>,
  context: ProcessContext,
): Promise<Core<R>> {
  return openParts(async (add) => {
    const store = add(await openStore(settings.counters, context));
    const rules = await openRules(traitsOf(settings.counters));
    add(rules.book);
    add(rules.candidate);
    const readiness = new ReadinessCheck(settings.readiness, { rules: rules.book.rules, store, clock: context.clock });
    return { store, rules, readiness };
  });
}

/** The dependencies of decisions. */
export function deciderOf(
  { decisions, counters, admin }: Settings,
  { store, rules }: Pick<Core, 'store' | 'rules'>,
  clock: Clock,
) {
  const { ledger, overrides, estimates } = store;
  const named = admin.hashKeys ? withHashedNames(rules.book.rules) : rules.book.rules;
  const own = { ledger, overrides, estimates, clock, counters: countersOf(counters, clock) };
  return { ...decisions, rules: named, ...own };
}

/** The same rules, by which statistics name callers' values by their hashes. */
function withHashedNames(rules: () => RuleTree | undefined): () => RuleTree | undefined {
  let source: RuleTree | undefined;
  let named: RuleTree | undefined;
  return () => {
    const tree = rules();
    if (tree !== source) named = tree && { ...tree, shownValue: hashed };
    source = tree;
    return named;
  };
}
