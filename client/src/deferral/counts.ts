import type { OpenTelemetryApi } from '../telemetry.ts';
import type { DeferralStats } from './options.ts';

/** An event in the life of a job, by name. */
type DeferralEvent = keyof DeferralStats;

/** Counts for `stats()`, and for OpenTelemetry. */
export interface DeferralCounts {
  add(event: DeferralEvent): void;
  /** A job was started this long after it was added. */
  waited(ms: number): void;
  read(): DeferralStats;
}

export function createCounts(queue: string, api: OpenTelemetryApi | undefined): DeferralCounts {
  const meter = api?.metrics.getMeter('weir-client');
  const events = meter?.createCounter('weir.client.deferral', { description: 'Deferred jobs by outcome' });
  const waits = meter?.createHistogram('weir.client.deferral.wait', { description: 'Time to a start', unit: 'ms' });
  const counts = {
    started: 0,
    restarted: 0,
    completed: 0,
    failed: 0,
    deadLettered: 0,
    refused: 0,
    unanswered: 0,
    recovered: 0,
  };
  return {
    add(event) {
      counts[event]++;
      events?.add(1, { 'weir.queue': queue, 'weir.outcome': event });
    },
    waited: (ms) => waits?.record(ms, { 'weir.queue': queue }),
    read: () => ({ ...counts }),
  };
}
