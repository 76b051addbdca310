import type { RlsService } from '../rls/service.ts';

export interface SheddingOptions {
  /** Maximum number of calls in flight, held calls included; more are refused. */
  readonly maxInFlight: number;
  /** The share of all calls that can be answered in time, 0 to 1. */
  readonly share: () => number;
  /** Number of queued calls, which `counting` does not count yet. */
  readonly waiting: () => number;
}

/** Decides which calls to refuse unread while the process is overloaded. */
export interface Shedding {
  /** Whether to refuse the next call. Call once per call. */
  mustShed(): boolean;
  /** Wraps the service to count its calls as in flight. */
  counting(service: RlsService): RlsService;
  /** Calls that are handled or queued. */
  inFlight(): number;
}

/** Any process can handle this many calls in flight: lag then has another cause, such as a busy machine. */
const ALWAYS_ADMITTED_CALLS = 100;

/** Refusing costs a fraction of deciding, so the calls that are admitted are answered before their callers time out. */
export function createShedding({ maxInFlight, share, waiting }: SheddingOptions): Shedding {
  let handled = 0;
  let due = 0; // fraction of a call to admit, accumulated
  const inFlightNow = (): number => handled + waiting();
  return {
    inFlight: inFlightNow,
    mustShed() {
      const inFlight = inFlightNow();
      if (inFlight >= maxInFlight) return true;
      if (inFlight < ALWAYS_ADMITTED_CALLS) return false;
      due = Math.min(due + share(), 1);
      if (due < 1) return true;
      due = 0;
      return false;
    },
    counting: (service) => ({
      shouldRateLimit(request, caller, reply) {
        handled++;
        return service.shouldRateLimit(request, caller, (outcome) => {
          handled--;
          reply(outcome);
        });
      },
    }),
  };
}
