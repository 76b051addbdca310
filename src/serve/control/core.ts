import { unitMs } from '../../engine/algorithms/limit.ts';
import { memoryRecords } from '../../engine/backends/records.ts';
import { Overrides } from '../../engine/decide/overrides.ts';
import { openCounters } from '../../engine/open/backends.ts';
import { createLimitation } from '../../engine/open/limitation.ts';
import { storeTraits } from '../../engine/open/options.ts';
import type { Responders } from '../../operate/admin/options.ts';
import { remoteRecords } from '../../operate/admin/remote-records.ts';
import type { OnLoad } from '../../operate/observe/rule-loads.ts';
import type { Settings } from '../../settings/settings.ts';
import { counterOptions } from '../../settings/store-traits.ts';
import { openHash } from '../parts/hash.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import { openParts } from '../parts/start-up.ts';
import { openRules } from './rules.ts';

/** What the parts that serve operators have in common. */
export type ControlCore = Awaited<ReturnType<typeof openControlCore>>;

/**
 * @throws CannotStart if rules at a plain path are invalid, or the settings of the control plane cannot be used
 */
export function openControlCore(
  settings: Settings,
  { askOne, onLoad }: Pick<Responders, 'askOne'> & { readonly onLoad: OnLoad },
  context: ProcessContext,
) {
  return openParts(async (add) => {
    const options = counterOptions(settings.counters);
    const hash = add(openHash(settings.admin));
    const store = { ...storeTraits(options), limitation: createLimitation({ ...options, clock: context.clock }) };
    const rules = await openRules(settings.rules, { store, onLoad }, context);
    add(rules.book);
    if (rules.candidate) add(rules.candidate);
    const hasOwnRecords = settings.counters.store.kind === 'memcache'; // which keeps no lists and maps
    const recordsOfDeciders = remoteRecords((call) => askOne({ kind: 'records', call }));
    const records = hasOwnRecords ? memoryRecords() : recordsOfDeciders;
    hash.shareIn(recordsOfDeciders);
    const { clock } = context;
    return {
      rules,
      /** Operators' changes, in the store of the deciders if it can keep them. */
      records,
      /** The records are in this process alone. */
      hasOwnRecords,
      clock,
      /** Hashes values that callers sent, if `HASH_KEYS` is set. */
      hash: hash.hash,
      /** Takes the key of hashes that the deciders use; to be called when there is one. */
      shareHashKey: hash.share,
      /** The names of counters. */
      counters: openCounters(options, clock),
      overrides: new Overrides(clock, (unit) => unitMs[unit]),
    };
  });
}
