import type { Clock } from '../../base/clock.ts';
import type { WireRequest } from '../../edge/wire/wire.ts';
import { createCounterKeys } from '../../engine/backends/key.ts';
import type { Answer, Verdict } from '../../engine/decide/decide.ts';
import { isCommit } from '../../engine/holds/reports.ts';
import { countedBy } from '../../engine/rules/match/match.ts';
import { counterSubject } from '../replay/figures.ts';
import { identifyClients, isSampled } from './key-sample.ts';
import type { RuleArrival } from './rule-sketches.ts';

/** An answered descriptor, as a process sends it to the process that aggregates arrivals. */
export type LoggedArrival = Omit<RuleArrival, 'level'>;

/** Arrivals of one key in 2^level, in chronological order. */
export interface ArrivalBatch {
  readonly level: number;
  readonly arrivals: readonly LoggedArrival[];
}

/** The sampled keys, the same in every process. */
export interface ArrivalSample {
  readonly seed: number;
  readonly level: number;
}

/** Maximum buffered arrivals; on overflow half of the keys are dropped. */
const MAX_BUFFERED_ARRIVALS = 5_000;

/** Buffers the arrivals at this process until they are collected, once a second. */
export class ArrivalLog {
  readonly #clock: Clock;
  readonly #findKey = createCounterKeys('');
  /** Current sample; undefined until arrivals are first collected. */
  #sample: ArrivalSample | undefined;
  #arrivals: LoggedArrival[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Records an answer. Call after the answer was sent. */
  answered({ domain, descriptors }: WireRequest, { verdicts }: Answer): void {
    const sample = this.#sample;
    if (!sample) return;
    const timeMs = this.#clock();
    const clients = identifyClients(descriptors, sample.seed);
    for (let at = 0; at < verdicts.length; at++)
      for (let verdict: Verdict | undefined = verdicts[at]; verdict?.kind === 'limited'; verdict = verdict.beside) {
        const { rule, found, limit, hits, decision } = verdict;
        if (hits <= 0 || isCommit(decision) || !rule.place || found.overridden) continue; // the limit is not of the rule
        const key = counterSubject(this.#findKey(limit, domain, countedBy(found)));
        if (!isSampled(sample.seed, key, sample.level)) continue;
        const refusedBy = decision.code === 'OVER_LIMIT' ? limit.windowMs : undefined;
        this.#arrivals.push({ rule: rule.path, key, hits, timeMs, refusedBy, client: clients[at] });
      }
    if (this.#arrivals.length > MAX_BUFFERED_ARRIVALS) this.#raiseTo(sample.level + 1);
  }

  /** Arrivals since the last call. From now on, only keys of this sample are kept. */
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
