import type { Clock } from '../../base/clock.ts';
import { shareRuns } from '../../base/later.ts';
import type { Records } from '../../engine/backends/records.ts';
import { descriptorKey, type Overrides, type StandingOverride } from '../../engine/decide/overrides.ts';
import { ApiProblem } from './problem.ts';

const MAP = 'overrides';

/** The most overrides at a time. */
const MAX_OVERRIDES = 10_000;

/** The interval at which the records are read: other instances may have changed them. */
export const FOLLOW_INTERVAL_MS = 500;

interface OverrideRecordsOptions {
  readonly records: Records;
  /** The overrides that this process follows. */
  readonly overrides: Overrides;
  readonly clock: Clock;
  /** Has every process that answers requests follow these overrides. */
  readonly spread: (overrides: readonly StandingOverride[]) => Promise<unknown>;
  /** Those processes follow none yet. */
  readonly isEmpty: boolean;
}

/** Stores overrides in the records, and has every process of this instance follow them. */
export class OverrideRecords {
  readonly #options: OverrideRecordsOptions;
  #isEmpty: boolean;

  constructor(options: OverrideRecordsOptions) {
    this.#options = options;
    this.#isEmpty = options.isEmpty;
  }

  /** Reads the records and follows them. While they cannot be read, the overrides read last apply. */
  readonly follow = shareRuns(() => this.#read());

  /** Stores overrides that the deciders already follow. */
  async restore(standing: readonly StandingOverride[]): Promise<void> {
    for (const override of standing) {
      const key = descriptorKey(override.domain, override.entries);
      await this.#options.records.put(MAP, key, JSON.stringify(override));
    }
    await this.follow();
  }

  async put(override: StandingOverride): Promise<void> {
    const known = await this.follow();
    const key = descriptorKey(override.domain, override.entries);
    const others = known.filter((one) => descriptorKey(one.domain, one.entries) !== key);
    if (others.length >= MAX_OVERRIDES)
      throw new ApiProblem(409, `at most ${MAX_OVERRIDES} overrides are allowed: remove one first`);
    await this.#options.records.put(MAP, key, JSON.stringify(override));
    await this.follow();
  }

  async remove(override: Pick<StandingOverride, 'domain' | 'entries'>): Promise<void> {
    await this.#options.records.remove(MAP, descriptorKey(override.domain, override.entries));
    await this.follow();
  }

  async #read(): Promise<readonly StandingOverride[]> {
    const { records, overrides, clock, spread } = this.#options;
    const nowMs = clock();
    const found: StandingOverride[] = [];
    for (const [key, text] of await records.all(MAP)) {
      const override = JSON.parse(text) as StandingOverride; // as `put` wrote it
      if (override.untilMs > nowMs) found.push(override);
      else await records.remove(MAP, key);
    }
    overrides.replace(found);
    if (found.length > 0 || !this.#isEmpty) await spread(found);
    this.#isEmpty = found.length === 0;
    return found;
  }
}
