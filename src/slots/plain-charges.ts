import { StoreUnavailable } from '../backends/backend.ts';
import { inOnePiece } from '../backends/key.ts';
import type { Debit } from '../ledger/debit.ts';
import { keptBytes } from '../ledger/pending-commits.ts';
import type { CommitAnswer } from './reservations.ts';
import { available, type SlotsDecider } from './slots.ts';

/** A commit, and the charges of limits without `reserve` that come with it. */
export interface CommitWithCharges {
  /** Names the commit: it is the same, whenever it comes again. */
  readonly name: string;
  /** @throws StoreUnavailable  it may be counted all the same, or later */
  readonly commit: () => Promise<CommitAnswer>;
  readonly charges: readonly Debit[];
}

/** What commits that failed, or that are in flight, have done. */
interface Unsettled {
  /** What they have not charged yet; undefined: none has tried to. */
  uncharged: readonly Debit[] | undefined;
  /** The answer of the one that was counted; undefined: not known. */
  counted: CommitAnswer | undefined;
  bytes: number;
}

const MAX_BYTES = 4 * 1024 * 1024;
/** Of a commit with its name, besides what it has not charged. */
const UNSETTLED_BYTES = 512;

/**
 * Charges limits without `reserve` once for each commit, however often it comes: they do not know the ids of requests,
 * so what a commit that failed has charged is remembered here. A charge whose answer was lost may count twice; a commit
 * that comes again to another process, or after so many others failed that it was forgotten, charges by its event.
 */
export class PlainCharges {
  readonly #decider: Pick<SlotsDecider, 'ledger' | 'storeTimeoutMs'>;
  /** The one that failed last comes last. */
  readonly #unsettled = new Map<string, Unsettled>();
  #bytes = 0;

  constructor(decider: Pick<SlotsDecider, 'ledger' | 'storeTimeoutMs'>) {
    this.#decider = decider;
  }

  /**
   * Commits, and charges the other limits even if the commit failed: the hits were used.
   *
   * @throws StoreUnavailable  part of it may be counted; the commit may come again
   */
  async commit({ name, commit, charges }: CommitWithCharges): Promise<CommitAnswer> {
    const own = this.#unsettled.get(name) ?? { uncharged: undefined, counted: undefined, bytes: 0 };
    this.#unsettled.set(name, own); // those that come meanwhile share it
    let failure: unknown;
    let answer: CommitAnswer | undefined;
    try {
      answer = await commit();
    } catch (cause) {
      failure = cause;
    }
    if (answer && answer.event !== 'repeated') own.counted = answer;
    if (answer ? answer.event !== 'repeated' : failure instanceof StoreUnavailable) own.uncharged ??= charges;
    const uncharged = await this.#charge(own).catch((cause: unknown) => cause);
    this.#forget(name);
    if ((failure ?? uncharged) instanceof StoreUnavailable) this.#keep(name, own);
    if (failure ?? uncharged) throw failure ?? uncharged;
    return own.counted ?? (answer as CommitAnswer); // without a failure there is one
  }

  async #charge(own: Unsettled): Promise<void> {
    const debits = own.uncharged ?? [];
    if (debits.length === 0) return;
    own.uncharged = []; // those that come meanwhile do not charge these
    const { ledger, storeTimeoutMs: timeoutMs } = this.#decider;
    const entries = await ledger.debit(debits, { spend: 'each', timeoutMs });
    const failed = debits.filter((_, at) => entries[at]?.code === 'UNAVAILABLE');
    own.uncharged = [...own.uncharged, ...failed.map((debit): Debit => ({ ...debit, key: inOnePiece(debit.key) }))];
    available(entries);
  }

  #keep(name: string, own: Unsettled): void {
    own.bytes = (own.uncharged ?? []).reduce((sum, debit) => sum + keptBytes(debit), UNSETTLED_BYTES);
    this.#unsettled.set(name, own);
    this.#bytes += own.bytes;
    for (const oldest of this.#unsettled.keys()) {
      if (this.#bytes <= MAX_BYTES) return;
      this.#forget(oldest);
    }
  }

  #forget(name: string): void {
    this.#bytes -= this.#unsettled.get(name)?.bytes ?? 0;
    this.#unsettled.delete(name);
  }
}
