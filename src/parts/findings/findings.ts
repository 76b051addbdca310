import type { Clock } from '../../base/clock.ts';
import { shareRuns } from '../../base/later.ts';
import type { FindingKind } from '../../operate/answers/findings.ts';
import type { WorkState } from '../../operate/observe/work-state.ts';
import type { EvidenceReport } from './evidence.ts';
import { type Judged, judge } from './judge.ts';

interface FindingsOptions {
  /** Collects what the processes have seen. */
  readonly collect: () => Promise<readonly EvidenceReport[]>;
  readonly clock: Clock;
  readonly every: (intervalMs: number, run: () => void) => () => void;
  readonly state: Pick<WorkState, 'run'>;
}

/** A finding, until it has not been confirmed for a minute. */
export interface StandingFinding extends Judged {
  readonly confirmedAtMs: number;
}

const INTERVAL_MS = 5_000;
const KEPT_MS = 60_000;
/** Findings that are kept; a mistake of many proxies makes many. */
const MAX_FINDINGS = 100;

/** Likely mistakes in the configurations of proxies, judged every five seconds. */
export class Findings {
  readonly #options: FindingsOptions;
  readonly #stop: () => void;
  #standing = new Map<string, StandingFinding>();

  constructor(options: FindingsOptions) {
    this.#options = options;
    this.#stop = options.every(INTERVAL_MS, () => void options.state.run(() => this.refresh()));
  }

  /** The oldest first. */
  list(): readonly StandingFinding[] {
    return [...this.#standing.values()];
  }

  /** Numbers of findings, for all kinds. */
  counts(): ReadonlyMap<string, number> {
    const counts: Record<FindingKind, number> = {
      call_without_descriptors: 0,
      check_without_charge: 0,
      release_without_acquire: 0,
      descriptor_missing_at_proxy: 0,
      placeholder_values: 0,
      cardinality_jump: 0,
      hits_beyond_bound: 0,
      many_new_children: 0,
      reservations_lapsed: 0,
      undecided: 0,
    };
    for (const { kind } of this.#standing.values()) counts[kind]++;
    return new Map(Object.entries(counts));
  }

  /** Judges anew. */
  readonly refresh = shareRuns(() => this.#judge());

  close(): void {
    this.#stop();
  }

  async #judge(): Promise<void> {
    const { collect, clock } = this.#options;
    const reports = await collect();
    const nowMs = clock();
    const next = new Map([...this.#standing].filter(([, { confirmedAtMs }]) => nowMs - confirmedAtMs < KEPT_MS));
    for (const judged of judge(reports, nowMs)) {
      const id = `${judged.kind} ${judged.id}`;
      const known = next.get(id);
      if (!known && next.size >= MAX_FINDINGS) continue;
      const example = known && judged.example.length === 0 ? known.example : judged.example;
      next.set(id, { ...judged, example, sinceMs: known?.sinceMs ?? judged.sinceMs, confirmedAtMs: nowMs });
    }
    this.#standing = next;
  }
}
