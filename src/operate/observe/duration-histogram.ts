import type { Metric } from 'prom-client';

/** Upper bounds of the buckets, in seconds. */
const BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1];

/** The calls of one method with one status. */
interface Samples {
  readonly labels: { readonly method: string; readonly grpc_status: string };
  /** Calls per bucket, not cumulative; the last bucket has no bound. */
  readonly counts: number[];
  sumSeconds: number;
}

/** Records the duration of a call. */
type ObserveDuration = (method: string, grpcStatus: number, elapsedMs: number) => void;

/** A histogram of durations. */
export interface Durations {
  readonly observe: ObserveDuration;
  /** For a registry of prom-client. */
  readonly metric: Metric;
  /** Calls of every method and status so far. */
  totals(): DurationTotals;
}

/** Calls per bucket, not cumulative; the last bucket has no bound. */
export interface DurationTotals {
  readonly counts: readonly number[];
  readonly boundsMs: readonly number[];
}

/**
 * Creates a histogram of durations. prom-client's own builds a string from the labels for each observation, which is
 * too slow for every call.
 */
export function createDurations(name: string, help: string): Durations {
  const byMethod = new Map<string, Samples[]>(); // arrays are indexed by status, a small number
  const metric = {
    name,
    get: () => ({
      name,
      help,
      type: 'histogram',
      values: [...byMethod.values()].flat().flatMap((one) => samplesOf(name, one)),
    }),
  };
  const begin = (method: string, grpcStatus: number): Samples => {
    const ofMethod = byMethod.get(method) ?? [];
    byMethod.set(method, ofMethod);
    const fresh = newDurations(method, grpcStatus);
    ofMethod[grpcStatus] = fresh;
    return fresh;
  };
  const observe: ObserveDuration = (method, grpcStatus, elapsedMs) => {
    const samples = byMethod.get(method)?.[grpcStatus] ?? begin(method, grpcStatus);
    const seconds = elapsedMs / 1000;
    let bucket = 0;
    while (bucket < BUCKETS.length && seconds > (BUCKETS[bucket] as number)) bucket++; // below the length
    samples.counts[bucket] = (samples.counts[bucket] ?? 0) + 1;
    samples.sumSeconds += seconds;
  };
  const totals = (): DurationTotals => {
    const counts = new Array<number>(BUCKETS.length + 1).fill(0);
    for (const ofMethod of byMethod.values())
      for (const one of ofMethod) {
        if (one) for (const [at, count] of one.counts.entries()) counts[at] = (counts[at] ?? 0) + count;
      }
    return { counts, boundsMs: BUCKETS.map((seconds) => seconds * 1_000) };
  };
  return { observe, metric: metric as unknown as Metric, totals }; // the registry uses only these parts
}

const newDurations = (method: string, grpcStatus: number): Samples => ({
  labels: { method, grpc_status: String(grpcStatus) },
  counts: new Array(BUCKETS.length + 1).fill(0),
  sumSeconds: 0,
});

function samplesOf(name: string, { labels, counts, sumSeconds }: Samples) {
  let count = 0;
  const buckets = counts.map((here, at) => {
    count += here;
    return { labels: { le: BUCKETS[at] ?? '+Inf', ...labels }, value: count, metricName: `${name}_bucket` };
  });
  const totals = [
    { labels, value: sumSeconds, metricName: `${name}_sum` },
    { labels, value: count, metricName: `${name}_count` },
  ];
  return [...buckets, ...totals];
}
