import { quantileMs } from '../observe/histogram.ts';
import { storeCallBounds } from '../observe/table.ts';

const MINUTE_STEPS = 60;
const MIN_CALLS = 10;
const DAY_STEPS = 144;
const SECONDS_OF_DAY_STEP = 600;

type Buckets = readonly number[];

/** How long the store takes, over the last minute and day: of a sample of the calls, and of the checks. */
export class StoreLatency {
  #now: Buckets = [];
  #minute: Buckets[] = [];
  #day: Buckets[] = [];
  #checks: number[] = [...storeCallBounds, 0].map(() => 0);
  #steps = 0;

  /** To be called once a second. @param checkMs  the duration of the last check; undefined: it is not known */
  gather(calls: Readonly<Record<string, number>>, checkMs: number | undefined): void {
    if (checkMs !== undefined) {
      const at = storeCallBounds.findIndex((bound) => checkMs <= bound);
      const bucket = at === -1 ? storeCallBounds.length : at;
      this.#checks[bucket] = (this.#checks[bucket] ?? 0) + 1;
    }
    this.#now = [...storeCallBounds.map(String), 'longer'].map(
      (name, at) => (calls[name] ?? 0) + (this.#checks[at] ?? 0),
    );
    this.#minute = [...this.#minute.slice(-MINUTE_STEPS), this.#now];
    if (this.#steps++ % SECONDS_OF_DAY_STEP === 0) this.#day = [...this.#day.slice(-DAY_STEPS), this.#now];
  }

  /** Undefined: nothing was measured. */
  minute() {
    return this.#since(this.#minute[0]);
  }

  /** Whether half of the calls of the last minute took longer than this; not known by a few of them. */
  isSlowerThan(ms: number): boolean {
    const counts = this.#counts(this.#minute[0]);
    return counts.reduce((sum, count) => sum + count, 0) >= MIN_CALLS && quantileMs(0.5, counts, storeCallBounds) > ms;
  }

  /** Of the last day, or since the start. */
  day() {
    return this.#since(this.#day[0]);
  }

  #counts(before: Buckets | undefined): Buckets {
    return this.#now.map((count, at) => Math.max(count - (before?.[at] ?? 0), 0));
  }

  #since(before: Buckets | undefined): { readonly p50Ms: number; readonly p99Ms: number } | undefined {
    const counts = this.#counts(before);
    if (counts.every((count) => count === 0)) return undefined;
    return { p50Ms: quantileMs(0.5, counts, storeCallBounds), p99Ms: quantileMs(0.99, counts, storeCallBounds) };
  }
}
