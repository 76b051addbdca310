import type { FixedWindowLimit } from '../../../src/engine/algorithms/fixed-window.ts';
import { leasesWithin } from '../../../src/parts/leases/leases.ts';
import type { Hasher } from '../hasher.ts';
import { KEY, LedgerWorld, type Process } from '../ledger-world.ts';
import type { Protocol, Step } from '../world.ts';

const WINDOW_MS = 10_000;
const HITS = [20, 1] as const;
const limit: FixedWindowLimit = {
  algorithm: 'fixed_window',
  counter: 'leased',
  requestsPerUnit: 61,
  soft: 0,
  windowMs: WINDOW_MS,
  alignment: 'epoch',
};

/** Processes that lease hits of one window. */
class LeasesWorld extends LedgerWorld {
  /** Calls left of each process, and the hits that were admitted and refused, by window. */
  readonly #left = this.processes.map((_, place): number => (place === 0 ? 4 : 2));
  readonly #admitted = [0, 0, 0, 0];
  readonly #refused = [0, 0, 0, 0];

  constructor(parties: readonly string[]) {
    super({
      ...{ parties, limit, policy: { consistency: 'leased' } },
      ledger: { leases: leasesWithin({ maxLeases: 10, idleMs: 250 }) },
      ...{ startMs: 3 * WINDOW_MS - 3_000, faults: 1, ticks: 2, tickMs: [300, 2_900], cuts: false, crashes: true },
    });
    this.begin();
    const asked = [
      ['A', 'is called for 20 hits'],
      ['A', 'spend'],
      ['store', 'OK'],
    ] as const;
    this.play(...asked, ['A', 'is called for 20 hits'], ['A', 'spend'], ['store', 'OK']); // A has a lease
  }

  protected clientSteps(process: Process): Omit<Step, 'touches'>[] {
    const { place, name } = process;
    if ((this.#left[place] ?? 0) === 0) return [];
    return HITS.map((hits, slot) => ({
      line: { from: name, text: `is called for ${hits} hits` },
      slot,
      run: () => {
        this.#left[place] = (this.#left[place] ?? 0) - 1;
        this.request(process, this.debit(hits), { spend: 'each' }, (entry) => {
          if (!entry) return;
          const chargedAtMs = entry.chargedAtMs ?? this.runtime.nowMs;
          const window = Math.floor(chargedAtMs / WINDOW_MS);
          if (entry.fromLease && window !== Math.floor(this.runtime.nowMs / WINDOW_MS))
            this.fail('a lease is used after its window');
          const counted = entry.code === 'OK' ? this.#admitted : this.#refused;
          counted[window] = (counted[window] ?? 0) + hits;
        });
      },
    }));
  }

  protected crashed(): void {}

  protected describeClients(hash: Hasher): void {
    hash.numbers([...this.#left, ...this.#admitted, ...this.#refused]);
  }

  protected check(): string | undefined {
    const [startMs = 0, count = 0] = this.store.readState(KEY) ?? [];
    for (const [window, admitted] of this.#admitted.entries()) {
      if (admitted > limit.requestsPerUnit) return `${admitted} hits were admitted, of ${limit.requestsPerUnit}`;
      if (window * WINDOW_MS === startMs && count < admitted)
        return `${admitted} hits were admitted, and ${count} are counted`;
    }
    return undefined;
  }

  protected finalViolation(): string | undefined {
    const [startMs, count = 0] = this.store.readState(KEY) ?? [];
    if (startMs === undefined || this.hadFaults) return undefined;
    const window = startMs / WINDOW_MS;
    const expected = (this.#admitted[window] ?? 0) + (this.#refused[window] ?? 0);
    if (count === expected) return undefined;
    return `${count} hits are counted for ${expected} that were asked: leased hits are not given back`;
  }
}

export const leases: Protocol = {
  name: 'leases',
  code: 'parts/leases/leases.ts, engine/ledger/ledger.ts',
  parties: ['store', 'A', 'B'],
  invariants: [
    'never more admitted than the limit',
    'admitted hits are counted',
    'no lease outlives its window',
    'unused hits are given back',
  ],
  depth: 5,
  longDepth: 7,
  create: () => new LeasesWorld(leases.parties),
};

export const leasesOfThree: Protocol = {
  ...leases,
  name: 'leases, three',
  parties: [...leases.parties, 'C'],
  depth: 4,
  longDepth: 6,
  create: () => new LeasesWorld(leasesOfThree.parties),
};
