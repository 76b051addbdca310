import type { RlsService } from '../rls/service.ts';

export interface SheddingOptions {
  /** Calls at a time, held calls included; more are refused. */
  readonly maxInFlight: number;
  /** The share of all calls that can be answered in time, 0 to 1. */
  readonly share: () => number;
  /** Calls that wait and are not counted by `counting` yet. */
  readonly waiting: () => number;
}

/** Decides which calls to refuse before they are read, while there is more to do than can be done in time. */
export interface Shedding {
  /** Whether to refuse the next call. To be asked once for each call. */
  mustShed(): boolean;
  /** The service, but its calls count as in flight. */
  counting(service: RlsService): RlsService;
  /** Calls that are handled or wait. */
  inFlight(): number;
}

/** So few calls are not too many for any process: what makes it late is something else, such as a busy machine. */
const ALWAYS_ADMITTED_CALLS = 100;

/** Refusing costs a fraction of deciding, so that what is decided is decided before its caller has gone. */
export function createShedding({ maxInFlight, share, waiting }: SheddingOptions): Shedding {
  let handled = 0;
  let due = 0; // of calls to admit
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
