import type { StoreTraits } from '../rules/fit.ts';
import type { Settings } from '../settings.ts';
import { openParts, type Part, type ProcessContext } from './parts.ts';
import { ReadinessCheck } from './readiness.ts';
import type { OpenRules } from './rules.ts';
import { type OpenStore, openStore } from './store.ts';
import { traitsOf } from './traits.ts';

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
