import { present } from '../../base/group.ts';
import { counted } from '../../base/texts.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import type { RecordedSettings } from '../lab/record/format.ts';
import { HashedValues } from './hashed-values.ts';

/** Settings of this process that affect decisions. */
interface DecidingSettings {
  readonly decisions: { readonly spend: string; readonly shadowMode: boolean; readonly quotaMode: boolean };
}

/** Collects the metadata of recordings for the report's warnings. */
export class RecordingNotes extends HashedValues {
  readonly #settings: RecordedSettings;
  readonly #differing = new Set<string>();
  #sample = 1;
  #dropped = 0;

  constructor({ decisions: { spend, shadowMode, quotaMode } }: DecidingSettings, trees: readonly RuleTree[]) {
    super(trees);
    this.#settings = { BACKEND_TYPE: 'memory', SPEND: spend, SHADOW_MODE: shadowMode, QUOTA_MODE: quotaMode };
  }

  onSettings(recorded: RecordedSettings): void {
    for (const [name, own] of Object.entries(this.#settings)) {
      const other = recorded[name as keyof RecordedSettings]; // keys of `#settings`
      if (other !== own && other !== undefined) this.#differing.add(`${name}=${other}`);
    }
  }

  /** @param sample  fraction of all counters that was recorded */
  onSample(sample: number): void {
    this.#sample = Math.min(this.#sample, sample);
  }

  onDropped(requests: number): void {
    this.#dropped += requests;
  }

  /** One text per warning. */
  warnings(): readonly string[] {
    const { unmatchable, mismatched } = this;
    return present([
      this.#differing.size > 0 && `the recording service used other settings: ${[...this.#differing].join(', ')}`,
      this.#sample < 1 &&
        `only requests of ${this.#sample * 100} % of the counters were recorded; other counters of these requests count fewer hits here than in the service, and refuse less`,
      this.#dropped > 0 && `missing: ${counted(this.#dropped, 'request')}, as the rate exceeded RECORD_MAX_PER_SECOND`,
      unmatchable > 0 &&
        `${counted(unmatchable, 'request')} with hashed values where these rules name values: the hashes matched none of them`,
      mismatched > 0 &&
        `${counted(mismatched, 'request')} with hashed values met other rules in the service, though the rules match alike: a value looks like a hash, or other limits replace some`,
    ]);
  }
}
