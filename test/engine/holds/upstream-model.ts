import { algorithmFor, type Limit } from '../../../src/engine/holds/limits.ts';
import { randomOf } from '../../helpers/random.ts';

/** A server that works on requests at a time, in order of arrival, behind a limit on requests in flight. */
export interface UpstreamModel {
  readonly limit: Limit;
  readonly workers: number;
  readonly workMs: number;
  /** Whether requests take 20 % more or less than `workMs`, or times of an exponential distribution. */
  readonly isEven: boolean;
  /** Arrivals per second, or clients that send a request after the other and wait about 100 ms if one is refused. */
  readonly load: { readonly arrivals: number } | { readonly clients: number };
  /** Phases, each with a length, and what changes. */
  readonly phases: readonly Phase[];
  readonly seed: number;
  /** Other arrivals, and the part of the slots that each may use in percent. */
  readonly also?: readonly Class[];
}

/** Requests of one priority. */
export interface Class {
  /** Per second in a phase: those that have it, else none. */
  readonly name: 'sheddable' | 'critical';
  readonly threshold: number;
}

interface Phase {
  /** Arrivals per second of each class. Default: none. */
  readonly sheddable?: number;
  readonly critical?: number;
  readonly forMs: number;
  /** Part of the workers that work. Default: 1. */
  readonly working?: number;
  /** Factor of the time of each request. Default: 1. */
  readonly slower?: number;
  /** Probability with which a request fails at once. Default: 0. */
  readonly failing?: number;
}

interface Finished {
  readonly atMs: number;
  readonly tookMs: number;
  readonly class?: Class['name'] | undefined;
}

const START_MS = 1_700_000_000_000;
const TICK_MS = 1;

/** Runs the model. Returns the requests that succeeded, the limit at the end of each second, and those sent by each class. */
export function runModel({ limit, workers, workMs, isEven, load, phases, seed, also = [] }: UpstreamModel) {
  const random = randomOf(seed);
  const { step } = algorithmFor(limit);
  let state: readonly number[] | undefined;
  let [nowMs, ids] = [0, 0];
  const use = (hits: number, holder: number, threshold?: number): boolean => {
    const next = step(limit, state, START_MS + nowMs, hits, true, { holder, threshold });
    state = next.state;
    return next.accepted;
  };
  const events: (() => void)[][] = [];
  const after = (ms: number, run: () => void): void => {
    const atMs = nowMs + Math.max(Math.round(ms), TICK_MS);
    events[atMs] ??= [];
    events[atMs].push(run);
  };
  let phase: Phase = { forMs: 0 };
  let busy = 0;
  const waiting: (() => void)[] = [];
  const served: Finished[] = [];
  const limits: number[] = [];
  const isFree = (): boolean => busy < Math.round(workers * (phase.working ?? 1));
  const startNext = (): void => {
    while (waiting.length > 0 && isFree()) waiting.shift()?.();
  };
  const work = (): number => (isEven ? 0.8 + 0.4 * random() : -Math.log(1 - random())) * workMs * (phase.slower ?? 1);
  const asked: { readonly atMs: number; readonly class: Class['name'] }[] = [];
  const arrive = (onEnd: (isServed: boolean) => void, by?: Class): void => {
    const [id, startMs] = [++ids, nowMs];
    if (by) asked.push({ atMs: nowMs, class: by.name });
    if (!use(1, id, by?.threshold)) return onEnd(false);
    const end = (status: number): void => {
      use(-status, id);
      if (status === 200) served.push({ atMs: nowMs, tookMs: nowMs - startMs, class: by?.name });
      onEnd(status === 200);
    };
    if (random() < (phase.failing ?? 0)) return after(5, () => end(503));
    const begin = (): void => {
      busy++;
      after(work(), () => {
        busy--;
        end(200);
        startNext();
      });
    };
    waiting.push(begin);
    startNext();
  };
  if ('arrivals' in load) {
    const gapMs = (): number => (-Math.log(1 - random()) * 1_000) / load.arrivals;
    const next = (): void => {
      let waitMs = 0;
      for (; waitMs < TICK_MS; waitMs += gapMs()) arrive(() => {});
      after(waitMs, next);
    };
    after(0, next);
  } else {
    for (let client = 0; client < load.clients; client++) {
      const again = (): void => arrive((isServed) => after(isServed ? TICK_MS : 50 + 100 * random(), again));
      after(20 * random(), again);
    }
  }
  for (const one of also) {
    const next = (): void => {
      const perSecond = phase[one.name] ?? 0;
      if (perSecond > 0) arrive(() => {}, one);
      after(perSecond > 0 ? (-Math.log(1 - random()) * 1_000) / perSecond : 100, next);
    };
    after(0, next);
  }
  for (const next of phases) {
    phase = next;
    startNext();
    for (const endMs = nowMs + next.forMs; nowMs < endMs; nowMs++) {
      for (const run of events[nowMs] ?? []) run();
      delete events[nowMs];
      if (nowMs % 1_000 === 999) limits.push(Math.floor((state?.[0] ?? 0) / 1_000));
    }
  }
  return { served, limits, asked };
}

/** Requests served per second between two times. */
export const rate = (served: readonly Finished[], fromMs: number, toMs: number): number =>
  served.filter(({ atMs }) => atMs >= fromMs && atMs < toMs).length / ((toMs - fromMs) / 1_000);

/** The 99th percentile of the time that requests took, between two times. */
export function p99Ms(served: readonly Finished[], fromMs: number, toMs: number): number {
  const times = served.filter(({ atMs }) => atMs >= fromMs && atMs < toMs).map(({ tookMs }) => tookMs);
  return times.sort((one, other) => one - other)[Math.floor(times.length * 0.99)] ?? 0;
}
