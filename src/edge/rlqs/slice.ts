import type { PoolReport } from '../../engine/shares/share-store.ts';
import type { ProxyBucket, Use } from './buckets.ts';
import type { BucketAction, BucketUsage } from './messages.ts';

/** A usage of a known bucket. */
export interface Reported {
  readonly bucket: ProxyBucket;
  readonly usage: BucketUsage;
  /** The use in this report and in the previous ones that were too short for a rate. */
  readonly use: Use;
  readonly arrivedMs: number;
}

/** The work for reports in one turn of the event loop: about a millisecond. The usage that reaches it is the last. */
export const SLICE_UNITS = 200;
/** Octets of a usage, and holders read by a step of its pool, that count as one more unit. */
const OCTETS_PER_UNIT = 320;
export const HOLDERS_PER_UNIT = 8;

/** The part of a report that is handled in one turn of the event loop. */
export class Slice {
  /** The actions to send to the proxy. */
  readonly actions: BucketAction[] = [];
  /** Reports to pools. */
  readonly shared: { readonly reported: Reported; readonly step: PoolReport }[] = [];
  #units = 0;

  get isFull(): boolean {
    return this.#units >= SLICE_UNITS;
  }

  countUsage(octets: number): void {
    this.#units += 1 + octets / OCTETS_PER_UNIT;
  }

  /** @param units  see `RequestWork` */
  countWork(units: number): void {
    this.#units += units;
  }

  countHolders(holders: number): void {
    this.#units += holders / HOLDERS_PER_UNIT;
  }
}
