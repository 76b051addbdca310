import type { FixedWindowLimit } from '../../../src/engine/algorithms/fixed-window.ts';
import type { Hasher } from '../hasher.ts';
import { KEY, LedgerWorld, type Process } from '../ledger-world.ts';
import type { Protocol, Step } from '../world.ts';

const WINDOW_MS = 60_000;
const SHARES = 2;
const limit: FixedWindowLimit = {
  algorithm: 'fixed_window',
  counter: 'local',
  requestsPerUnit: 2,
  soft: 0,
  windowMs: WINDOW_MS,
  alignment: 'epoch',
};
const SHARE = limit.requestsPerUnit / SHARES;

/** Processes that count by themselves while they do not reach the store. */
class DebtsWorld extends LedgerWorld {
  readonly #left = this.processes.map(() => 3);
  /** Admitted by the store, and by each process itself since it began. */
  #byStore = 0;
  readonly #byItself = this.processes.map(() => 0);
  /** Of these, hits that the store must be told. */
  readonly #owed = this.processes.map(() => 0);
  /** Admitted by processes that were killed, and what they owed. */
  #killed = 0;
  #lost = 0;
  #returned = 0;

  /** @param isSettling  begins with a hit that the only process has admitted by itself */
  constructor(parties: readonly string[], isSettling: boolean) {
    super({
      ...{ parties, limit, policy: { onStoreFailure: 'local', localShare: SHARES } },
      ledger: { local: { maxCounters: 10, maxBytes: 100_000, instances: () => SHARES } },
      ...{
        startMs: WINDOW_MS,
        faults: isSettling ? 3 : 2,
        ticks: isSettling ? 3 : 2,
        tickMs: [600],
        cuts: true,
        crashes: true,
      },
    });
    this.begin();
    if (isSettling) this.#left[0] = 2;
    if (isSettling) this.play(['A', 'loses its connection'], ['A', 'is called'], ['A', 'is connected again']);
  }

  protected clientSteps(process: Process): Omit<Step, 'touches'>[] {
    const { place, name } = process;
    const left = this.#left[place] ?? 0;
    if (left === 0) return [];
    const call = (): void => {
      this.#left[place] = left - 1;
      this.request(process, this.debit(1), { spend: 'all_or_nothing' }, (entry, isUnknown) => {
        if (entry?.code !== 'OK') return;
        if (entry.degraded !== 'local') {
          this.#byStore++;
          return;
        }
        this.#byItself[place] = (this.#byItself[place] ?? 0) + 1;
        if (!isUnknown) this.#owed[place] = (this.#owed[place] ?? 0) + 1;
      });
    };
    return [{ line: { from: name, text: 'is called' }, slot: 0, run: call }];
  }

  protected crashed({ place }: Process): void {
    this.#killed += this.#byItself[place] ?? 0;
    this.#lost += this.#owed[place] ?? 0;
    this.#byItself[place] = 0;
    this.#owed[place] = 0;
  }

  protected describeClients(hash: Hasher): void {
    hash.numbers([
      ...this.#left,
      ...this.#byItself,
      ...this.#owed,
      this.#byStore,
      this.#killed,
      this.#lost,
      this.#returned,
    ]);
  }

  protected check(): string | undefined {
    if (this.#byStore > limit.requestsPerUnit)
      return `the store admitted ${this.#byStore} hits, of ${limit.requestsPerUnit}`;
    const most = Math.max(...this.#byItself);
    if (most > SHARE) return `a process admitted ${most} hits by itself, of its share of ${SHARE}`;
    const all = this.#byStore + this.#killed + this.#byItself.reduce((sum, one) => sum + one, 0);
    const bound = limit.requestsPerUnit + SHARE * (this.processes.length + this.crashes);
    return all > bound ? `${all} hits were admitted, beyond the stated bound of ${bound}` : undefined;
  }

  protected finalViolation(): string | undefined {
    const [, count = 0] = this.store.readState(KEY) ?? [];
    const owed = this.#owed.reduce((sum, one) => sum + one, 0);
    const unknown = this.processes.reduce((sum, one) => sum + one.unknown, 0);
    const least = this.#byStore + owed;
    if (count < least) return `${count} hits are counted, of ${least} that were admitted: not all are settled`;
    const most = least + this.#lost + unknown;
    return count > most
      ? `${count} hits are counted, of ${most} that were admitted: some are settled twice`
      : undefined;
  }
}

export const debts: Protocol = {
  name: 'local counts',
  code: 'engine/ledger/debts.ts, failure-policies.ts, ledger.ts',
  parties: ['store', 'A', 'B'],
  invariants: [
    'never more than the limit and the share of each process',
    'each hit is settled',
    'and once',
    'a refused hit is not charged',
  ],
  depth: 5,
  longDepth: 7,
  create: () => new DebtsWorld(debts.parties, false),
};

export const settlements: Protocol = {
  ...debts,
  ...{ name: 'settlements', parties: ['store', 'A'], depth: 8, longDepth: 10 },
  create: () => new DebtsWorld(settlements.parties, true),
};
