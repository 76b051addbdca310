import type { Clock } from '../../base/clock.ts';
import type { Hash } from '../../base/hashed.ts';
import { unitMs } from '../../engine/algorithms/limit.ts';
import type { Counters } from '../../engine/backends/key.ts';
import { memoryRecords, type Records } from '../../engine/backends/records.ts';
import { Overrides } from '../../engine/decide/overrides.ts';
import { openCounters } from '../../engine/open/backends.ts';
import { storeTraits } from '../../engine/open/options.ts';
import type { Responders, SourcedRules } from '../../operate/admin/options.ts';
import { remoteRecords } from '../../operate/admin/remote-records.ts';
import type { OnLoad } from '../../operate/observe/rule-loads.ts';
import type { Settings } from '../../settings/settings.ts';
import { counterOptions } from '../../settings/store-traits.ts';
import { openHash } from '../parts/hash.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import { openParts, type Part } from '../parts/start-up.ts';
import { openRules } from './rules.ts';

/** What the parts that serve operators have in common. */
export interface ControlCore extends Part {
  readonly rules: SourcedRules;
  /** Operators' changes, in the store of the deciders if it can keep them. */
  readonly records: Records;
  /** The records are in this process alone. */
  readonly hasOwnRecords: boolean;
  readonly clock: Clock;
  /** The names of counters. */
  readonly counters: Counters;
  readonly overrides: Overrides;
  /** Hashes values that callers sent, if `HASH_KEYS` is set. */
  readonly hash: Hash | undefined;
  /** Takes the key of hashes that the deciders use; to be called when there is one. */
  shareHashKey(): Promise<void>;
}

/**
 * @throws CannotStart if rules at a plain path are invalid, or the settings of the control plane cannot be used
 */
export function openControlCore(
  settings: Settings,
  { askOne, onLoad }: Pick<Responders, 'askOne'> & { readonly onLoad: OnLoad },
  context: ProcessContext,
): Promise<ControlCore> {
  return openParts(async (add) => {
    const options = counterOptions(settings.counters);
    const hash = add(openHash(settings.admin));
    const rules = await openRules(settings.rules, { store: storeTraits(options), onLoad }, context);
    add(rules.book);
    add(rules.candidate);
    const hasOwnRecords = settings.counters.store.kind === 'memcache'; // which keeps no lists and maps
    const recordsOfDeciders = remoteRecords((call) => askOne({ kind: 'records', call }));
    const records = hasOwnRecords ? memoryRecords() : recordsOfDeciders;
    hash.shareIn(recordsOfDeciders);
    const { clock } = context;
    return {
      rules,
      records,
      hasOwnRecords,
      clock,
      hash: hash.hash,
      shareHashKey: hash.share,
      counters: openCounters(options, clock),
      overrides: new Overrides(clock, (unit) => unitMs[unit]),
    };
  });
}
