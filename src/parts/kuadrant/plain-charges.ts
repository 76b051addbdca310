import type { ServiceDecider } from '../../edge/grpc/side-service.ts';
import { StoreUnavailable } from '../../engine/backends/backend.ts';
import { inOnePiece } from '../../engine/backends/key.ts';
import { type Debit, type Entries, keptBytes } from '../../engine/ledger/debit.ts';
import { storeCall } from '../../engine/ledger/store-budget.ts';
import type { CommitAnswer } from '../holds/reservations.ts';
import { available, type TimedCaller } from '../holds/slots.ts';

/** A commit, and its charges to limits without `reserve`. */
interface CommitWithCharges {
  /** The name of the commit: the same if it is repeated. */
  readonly name: string;
  /** @throws StoreUnavailable  it may be counted anyway, or later */
  readonly commit: () => Promise<CommitAnswer>;
  readonly charges: readonly Debit[];
  readonly caller: TimedCaller;
}

/** The state of a commit that failed or is in flight. */
interface Unsettled {
  /** Charges still to be made; undefined if no attempt has tried to charge. */
  uncharged: readonly Debit[] | undefined;
  /** Answer of the attempt that was counted; undefined if unknown. */
  counted: CommitAnswer | undefined;
  bytes: number;
}

const MAX_BYTES = 4 * 1024 * 1024;
/** The bytes of a commit with its name, besides its remaining charges. */
const UNSETTLED_BYTES = 512;

/**
 * Charges limits without `reserve` once for each commit, however often it is repeated: they do not use ids of requests,
 * so the charges made by a failed commit are remembered here. A charge whose answer was lost is not repeated. A commit
 * that is repeated to another process, or after it was dropped because many others failed, charges according to its
 * event.
 */
export class PlainCharges {
  readonly #decider: Pick<ServiceDecider, 'ledger' | 'storeBudget'>;
  /** Unsettled commits by name; the most recently failed one is last. */
  readonly #unsettled = new Map<string, Unsettled>();
  #bytes = 0;

  constructor(decider: Pick<ServiceDecider, 'ledger' | 'storeBudget'>) {
    this.#decider = decider;
  }

  /**
   * Commits, and charges the other limits even if the commit failed, since the hits were used.
   *
   * @throws StoreUnavailable  a part may be counted; the commit may be repeated
   */
  async commit({ name, commit, charges, caller }: CommitWithCharges): Promise<CommitAnswer> {
    const own = this.#unsettled.get(name) ?? { uncharged: undefined, counted: undefined, bytes: 0 };
    this.#unsettled.set(name, own); // concurrent repetitions share it
    let failure: unknown;
    let answer: CommitAnswer | undefined;
    try {
      answer = await commit();
    } catch (cause) {
      failure = cause;
    }
    if (answer && answer.event !== 'repeated') own.counted = answer;
    if (answer ? answer.event !== 'repeated' : failure instanceof StoreUnavailable) own.uncharged ??= charges;
    const uncharged = await this.#charge(own, caller).catch((cause: unknown) => cause);
    this.#forget(name);
    if ((failure ?? uncharged) instanceof StoreUnavailable) this.#keep(name, own);
    if (failure ?? uncharged) throw failure ?? uncharged;
    return own.counted ?? (answer as CommitAnswer); // without a failure there is one
  }

  async #charge(own: Unsettled, caller: TimedCaller): Promise<void> {
    const debits = own.uncharged ?? [];
    if (debits.length === 0) return;
    own.uncharged = []; // concurrent repetitions do not charge these
    const { ledger, storeBudget } = this.#decider;
    const entries = await ledger.debit(debits, storeCall('each', storeBudget, caller.timeLeftMs()));
    const failed = debits.filter((_, at) => isUncounted(entries[at]));
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

/** Whether a charge was certainly not counted. */
const isUncounted = (entry: Entries[number] | undefined): boolean =>
  entry?.code === 'UNAVAILABLE' && entry.isUnknown !== true;
