import { isCommit } from '../algorithms/limit.ts';
import { createCounterKeys } from '../backends/key.ts';
import type { Clock } from '../clock.ts';
import type { Answer } from '../decide.ts';
import { subjectOf } from '../replay/figures.ts';
import type { WireRequest } from '../rls/wire.ts';
import { countedEntries } from '../rules/match.ts';
import { clientsOf } from './clients.ts';
import { isSampled } from './key-sample.ts';

/** What a process answered, as it sends it to the one that sums it up. */
export interface LoggedArrival {
  readonly rule: string;
  readonly key: string;
  readonly hits: number;
  readonly timeMs: number;
  readonly refusedBy: number | undefined;
  readonly client: number | undefined;
}

/** Arrivals of one key in 2^level, in order of time. */
export interface ArrivalBatch {
  readonly level: number;
  readonly arrivals: readonly LoggedArrival[];
}

/** Which keys are sampled: the same ones in every process. */
export interface ArrivalSample {
  readonly seed: number;
  readonly level: number;
}

/** Arrivals that wait to be collected: beyond, half of the keys are left out. */
export const MAX_WAITING_ARRIVALS = 5_000;

/** Keeps what this process answers until it is collected, which happens once a second. */
export class ArrivalLog {
  readonly #clock: Clock;
  readonly #keyOf = createCounterKeys('');
  /** Undefined until arrivals are collected for the first time. */
  #sample: ArrivalSample | undefined;
  #arrivals: LoggedArrival[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** To be called with each answer, after it has left. */
  answered({ domain, descriptors }: WireRequest, { verdicts }: Answer): void {
    const sample = this.#sample;
    if (!sample) return;
    const timeMs = this.#clock();
    const clients = clientsOf(descriptors, sample.seed);
    for (let at = 0; at < verdicts.length; at++) {
      const verdict = verdicts[at];
      if (verdict?.kind !== 'limited' || verdict.hits <= 0 || isCommit(verdict.decision)) continue;
      const { rule, limit, hits, decision } = verdict;
      if (!rule.place) continue; // the request brought the limit along
      const key = subjectOf(this.#keyOf(limit, domain, countedEntries(rule, descriptors[at]?.entries ?? [])));
      if (!isSampled(sample.seed, key, sample.level)) continue;
      const refusedBy = decision.code === 'OVER_LIMIT' ? limit.windowMs : undefined;
      this.#arrivals.push({ rule: rule.path, key, hits, timeMs, refusedBy, client: clients[at] });
    }
    if (this.#arrivals.length > MAX_WAITING_ARRIVALS) this.#raiseTo(sample.level + 1);
  }

  /** What has arrived since the last call; from now on, of no more keys than the sample says. */
  take({ seed, level }: ArrivalSample): ArrivalBatch {
    this.#sample = this.#sample?.seed === seed ? this.#sample : { seed, level };
    if (level > this.#sample.level) this.#raiseTo(level);
    const arrivals = this.#arrivals;
    this.#arrivals = [];
    return { level: this.#sample.level, arrivals };
  }

  #raiseTo(level: number): void {
    if (!this.#sample) return;
    const { seed } = this.#sample;
    this.#sample = { seed, level };
    this.#arrivals = this.#arrivals.filter(({ key }) => isSampled(seed, key, level));
  }
}
