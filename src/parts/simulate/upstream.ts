import { hashHolder } from '../../engine/holds/claim.ts';
import type { Counting } from '../../engine/holds/counting.ts';
import { algorithmFor, capacityAt, describeCounter, type Limit } from '../../engine/holds/limits.ts';
import { Random } from './random.ts';

/** An upstream that works on some requests at a time, in order of arrival, behind a limit on requests in flight. */
export interface UpstreamModel {
  readonly limit: Limit;
  readonly workers: number;
  /** Mean time of a request, in ms. */
  readonly workMs: number;
  /** Whether requests take up to 20 % more or less than `workMs`; otherwise their times are exponentially distributed. */
  readonly isEven: boolean;
  readonly sources: readonly Source[];
  readonly phases: readonly Phase[];
  readonly seed: number;
}

/** Where requests come from: at random times, or from clients that each wait for their answer. */
export type Source = (
  | {
      /** Requests per second in each phase; a single number for all. */
      readonly arrivals: number | readonly number[];
    }
  | {
      /** Clients. A refused one waits for about 100 ms. */
      readonly clients: number;
    }
) & {
  /** Part of the slots that its requests may use, in percent. Default: all. */
  readonly threshold?: number;
  /** Its requests fail at once, and its clients send the next one at once. */
  readonly fails?: true;
};

/** A time in which the upstream does not change. */
export interface Phase {
  readonly forMs: number;
  /** Part of the workers that work. Default: 1. */
  readonly working?: number;
  /** Factor of the time of each request. Default: 1. */
  readonly slower?: number;
  /** Probability that a request fails at once. Default: 0. */
  readonly failing?: number;
}

/** A request that was refused or has ended. Times are in ms; `atMs` counts from the start. */
interface Ended {
  readonly source: Source;
  readonly atMs: number;
  readonly tookMs: number;
  readonly outcome: 'served' | 'failed' | 'refused';
}

export interface UpstreamRun {
  readonly ended: readonly Ended[];
  /** The number of slots at the end of each second. */
  readonly limits: readonly number[];
}

/** Any time; windows and expiry need one. */
const START_MS = 1_700_000_000_000;
/** How long a request that fails takes, and how long a source without arrivals waits for the next phase. */
const FAILURE_MS = 5;
const PAUSE_MS = 100;

/** Runs the model on a simulated clock; equal seeds give equal runs. */
export const runUpstream = (model: UpstreamModel): UpstreamRun => new Upstream(model).run();

class Upstream {
  readonly #model: UpstreamModel;
  readonly #random: Random;
  readonly #step: Counting<Limit>['step'];
  #counter: readonly number[] | undefined;
  /** What happens in each millisecond to come. */
  readonly #events = new Map<number, (() => void)[]>();
  #nowMs = 0;
  #phaseAt = 0;
  #ids = 0;
  #busy = 0;
  readonly #waiting: (() => void)[] = [];
  readonly #ended: Ended[] = [];
  readonly #limits: number[] = [];

  constructor(model: UpstreamModel) {
    this.#model = model;
    this.#random = new Random(model.seed);
    this.#step = algorithmFor(model.limit).step;
  }

  run(): UpstreamRun {
    for (const source of this.#model.sources) this.#start(source);
    for (const [at, { forMs }] of this.#model.phases.entries()) {
      this.#phaseAt = at;
      this.#startNext();
      for (const endMs = this.#nowMs + forMs; this.#nowMs < endMs; this.#nowMs++) this.#tick();
    }
    return { ended: this.#ended, limits: this.#limits };
  }

  #tick(): void {
    for (const event of this.#events.get(this.#nowMs) ?? []) event(); // one that adds another adds it to a later time
    this.#events.delete(this.#nowMs);
    if (this.#nowMs % 1_000 === 999) this.#limits.push(this.#slots());
  }

  #after(ms: number, event: () => void): void {
    const atMs = this.#nowMs + Math.max(Math.round(ms), 1);
    const events = this.#events.get(atMs);
    if (events) events.push(event);
    else this.#events.set(atMs, [event]);
  }

  get #phase(): Phase {
    return this.#model.phases[this.#phaseAt] ?? { forMs: 0 };
  }

  #start(source: Source): void {
    if ('clients' in source) {
      const ask = (): void =>
        this.#arrive(source, (outcome) => {
          const isAtOnce = outcome === 'served' || (source.fails && outcome === 'failed');
          this.#after(isAtOnce ? 0 : this.#random.between(50, 150), ask);
        });
      for (let client = 0; client < source.clients; client++) this.#after(this.#random.between(0, 20), ask);
      return;
    }
    const { arrivals } = source;
    const next = (): void => {
      const perSecond = (typeof arrivals === 'number' ? arrivals : arrivals[this.#phaseAt]) ?? 0;
      if (perSecond === 0) return this.#after(PAUSE_MS, next);
      let waitMs = 0;
      for (; waitMs < 1; waitMs += this.#random.exponential(1_000 / perSecond)) this.#arrive(source, () => {});
      this.#after(waitMs, next);
    };
    this.#after(0, next);
  }

  #arrive(source: Source, onEnd: (outcome: Ended['outcome']) => void): void {
    const [id, startMs] = [hashHolder(String(++this.#ids)), this.#nowMs];
    const end = (outcome: Ended['outcome']): void => {
      this.#ended.push({ source, atMs: this.#nowMs, tookMs: this.#nowMs - startMs, outcome });
      onEnd(outcome);
    };
    if (!this.#use(1, id, source.threshold).accepted) return end('refused');
    const release = (status: number): void => {
      this.#use(-1, id, undefined, status);
      end(status === 200 ? 'served' : 'failed');
    };
    if (source.fails || this.#random.uniform() < (this.#phase.failing ?? 0))
      return this.#after(FAILURE_MS, () => release(503));
    this.#waiting.push(() => {
      this.#busy++;
      this.#after(this.#workMs(), () => {
        this.#busy--;
        release(200);
        this.#startNext();
      });
    });
    this.#startNext();
  }

  #slots(): number {
    const { limit } = this.#model;
    return capacityAt(limit, describeCounter(limit, this.#counter, START_MS + this.#nowMs));
  }

  #startNext(): void {
    const working = Math.round(this.#model.workers * (this.#phase.working ?? 1));
    while (this.#busy < working && this.#waiting.length > 0) this.#waiting.shift()?.();
  }

  #workMs(): number {
    const { isEven, workMs } = this.#model;
    const factor = isEven ? this.#random.between(0.8, 1.2) : this.#random.exponential(1);
    return factor * workMs * (this.#phase.slower ?? 1);
  }

  /** Takes slots of the limit, releases them with a status, or only looks at it (0 hits). */
  #use(hits: number, holder: number, threshold?: number, status?: number) {
    const { limit } = this.#model;
    const next = this.#step(limit, this.#counter, START_MS + this.#nowMs, hits, hits !== 0, {
      holder,
      threshold,
      status,
    });
    this.#counter = next.state;
    return next;
  }
}

/** Requests served per second between two times. */
export const servedPerSecond = (ended: readonly Ended[], fromMs: number, toMs: number): number =>
  within(ended, fromMs, toMs).length / ((toMs - fromMs) / 1_000);

/** The 99th percentile of the time that served requests took between two times, in ms; 0 if there are none. */
export function servedP99Ms(ended: readonly Ended[], fromMs: number, toMs: number): number {
  const times = within(ended, fromMs, toMs).map(({ tookMs }) => tookMs);
  return times.sort((one, other) => one - other)[Math.floor(times.length * 0.99)] ?? 0;
}

const within = (ended: readonly Ended[], fromMs: number, toMs: number): Ended[] =>
  ended.filter(({ outcome, atMs }) => outcome === 'served' && atMs >= fromMs && atMs < toMs);
