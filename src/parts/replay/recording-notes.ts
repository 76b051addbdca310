import type { RecordedSettings } from '../lab/record/format.ts';
import type { HashedValues } from './hashed-values.ts';

/** Settings of this process that affect decisions. */
interface DecidingSettings {
  readonly decisions: { readonly spend: string; readonly shadowMode: boolean; readonly quotaMode: boolean };
}

/** Collects the metadata of recordings for the report's warnings. */
export class RecordingNotes {
  readonly #settings: RecordedSettings;
  readonly #hashed: HashedValues;
  readonly #differing = new Set<string>();
  #sample = 1;
  #dropped = 0;

  constructor({ decisions: { spend, shadowMode, quotaMode } }: DecidingSettings, hashed: HashedValues) {
    this.#settings = { BACKEND_TYPE: 'memory', SPEND: spend, SHADOW_MODE: shadowMode, QUOTA_MODE: quotaMode };
    this.#hashed = hashed;
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

  /** @param digest  digest of the rules from now on (`matchDigest`) */
  onRules(digest: string): void {
    this.#hashed.recordedUnder(digest);
  }

  /** One text per warning. */
  warnings(): readonly string[] {
    const found: string[] = [];
    if (this.#differing.size > 0)
      found.push(`the recording service used other settings: ${[...this.#differing].join(', ')}`);
    if (this.#sample < 1)
      found.push(
        `only requests of ${this.#sample * 100} % of the counters were recorded; other counters of these requests count fewer hits here than in the service, and refuse less`,
      );
    if (this.#dropped > 0) found.push(`${this.#dropped} requests are missing: the rate exceeded RECORD_MAX_PER_SECOND`);
    const { unmatchable, mismatched } = this.#hashed;
    if (unmatchable > 0)
      found.push(
        `${unmatchable} requests have hashed values where these rules name values: the hashes matched none of them`,
      );
    if (mismatched > 0)
      found.push(
        `${mismatched} requests with hashed values met other rules in the service, though the rules match alike: a value looks like a hash, or other limits replace some`,
      );
    return found;
  }
}
