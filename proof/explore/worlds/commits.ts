import type { State } from '../../../src/engine/algorithms/limit.ts';
import { algorithmFor } from '../../../src/engine/holds/limits.ts';
import { heldBy } from '../../../src/engine/ledger/debit.ts';
import type { ReservationLimit } from '../../../src/parts/reservations/reservation.ts';
import type { Hasher } from '../hasher.ts';
import { KEY, LedgerWorld, type Process } from '../ledger-world.ts';
import type { Protocol, Step } from '../world.ts';

const WINDOW_MS = 600_000;
const TTL_MS = 2_000;
const HITS = 2;
const numbers = { requestsPerUnit: 100, soft: 0, windowMs: WINDOW_MS } as const;
const limit: ReservationLimit = {
  ...{
    ...numbers,
    algorithm: 'reservation',
    counter: 'reservation',
    ttlMs: TTL_MS,
    onOverrun: 'debt',
    onLapse: 'free',
  },
  inner: { ...numbers, algorithm: 'fixed_window', counter: 'fixed_window', alignment: 'epoch' },
};

/** Processes that commit reservations, and keep commits that the store does not accept. */
class CommitsWorld extends LedgerWorld {
  /** By process: whether its request has been committed. */
  readonly #phase = this.processes.map((): 'reserved' | 'committed' => 'reserved');
  #answered = 0;
  #crashed = 0;

  constructor(parties: readonly string[]) {
    super({
      ...{ parties, limit, policy: {} },
      ledger: { local: { maxCounters: 10, maxBytes: 100_000, instances: () => 1 } },
      ...{ startMs: WINDOW_MS, faults: 2, ticks: 4, tickMs: [250, 1_500], cuts: true, crashes: true },
    });
    this.begin();
    for (const { place } of this.processes) {
      const reserve = heldBy(this.debit(HITS), { holder: place + 1 });
      void this.store.run([reserve], { spend: 'each', timeoutMs: 0 });
    }
  }

  protected clientSteps(process: Process): Omit<Step, 'touches'>[] {
    const { place, name } = process;
    if (this.#phase[place] === 'committed') return [];
    const run = (): void => {
      this.#phase[place] = 'committed';
      this.request(
        process,
        heldBy(this.debit(HITS), { holder: place + 1, commits: true }),
        { spend: 'each' },
        (entry) => {
          if (entry) this.#answered++;
        },
      );
    };
    return [{ line: { from: name, text: `has used ${HITS} hits` }, slot: 0, run }];
  }

  protected crashed(): void {
    this.#crashed++;
  }

  protected describeClients(hash: Hasher): void {
    for (const phase of this.#phase) hash.word(phase.length);
    hash.numbers([this.#answered, this.#crashed]);
  }

  protected check(): string | undefined {
    const committed = this.#phase.filter((phase) => phase === 'committed').length;
    const charged = readCharged(this.store.readState(KEY), this.runtime.nowMs);
    if (charged > committed * HITS)
      return `${charged} hits are charged for ${committed * HITS} used: a commit counts twice`;
    if (charged < this.#answered * HITS)
      return `${charged} hits are charged for ${this.#answered * HITS} whose commit was answered`;
    return undefined;
  }

  protected finalViolation(): string | undefined {
    const dropped = this.processes.reduce((sum, { ledger }) => sum + (ledger.pendingCommits?.counts().dropped ?? 0), 0);
    const committed = this.#phase.filter((phase) => phase === 'committed').length;
    const charged = readCharged(this.store.readState(KEY), this.runtime.nowMs);
    const least = committed - dropped - this.#crashed;
    return charged < least * HITS ? `${charged} hits are charged for ${committed} commits: one was lost` : undefined;
  }
}

function readCharged(state: State | undefined, nowMs: number): number {
  if (!state) return 0;
  const { step, describe } = algorithmFor(limit);
  const { report, state: same } = step(limit, state, nowMs, 0, false, { holder: 99 });
  const { hitsBefore, reservation } = describe(
    limit,
    report ?? same,
    nowMs,
    { hits: 0, accepted: true, charged: false },
    { holder: 99 },
  );
  return hitsBefore - (reservation?.held ?? 0);
}

export const commits: Protocol = {
  name: 'pending commits',
  code: 'parts/reservations/pending-commits.ts, parts/reservations/reservation.ts',
  parties: ['store', 'A'],
  invariants: ['a commit is charged once', 'an answered commit is charged', 'a commit without an answer is sent again'],
  depth: 8,
  longDepth: 12,
  create: () => new CommitsWorld(commits.parties),
};
