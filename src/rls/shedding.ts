import { status } from '@grpc/grpc-js';
import type { GrpcStatus, RlsService } from './service.ts';

export interface SheddingOptions {
  /** Calls at a time, those that are held included; more are refused. */
  readonly maxUnderWay: number;
  /** Of all calls the share that can be answered in time, 0 to 1. */
  readonly share: () => number;
  /** Is told of each call that is refused. */
  readonly onShed: () => void;
}

/** Refuses calls without a look at them while there is more to do than can be done in time. */
export interface Shedding {
  /** Why the next call is not even read; undefined: it is. To be asked once for each call, as early as can be. */
  refusal(): GrpcStatus | undefined;
  /** The service, but its calls count as under way. */
  counting(service: RlsService): RlsService;
}

/** So few calls are not too many for any process: what makes it late is something else, a busy machine, say. */
const FEW = 100;

const tooMuch: GrpcStatus = {
  code: status.RESOURCE_EXHAUSTED,
  details: 'the service has more to do than it can: try again',
};

/** Refusing costs a fraction of deciding, so that what is decided is decided before its caller has gone. */
export function createShedding({ maxUnderWay, share, onShed }: SheddingOptions): Shedding {
  let underWay = 0;
  let due = 0; // of calls to take
  const mustShed = (): boolean => {
    if (underWay >= maxUnderWay) return true;
    if (underWay < FEW) return false;
    due = Math.min(due + share(), 1);
    if (due < 1) return true;
    due = 0;
    return false;
  };
  return {
    refusal() {
      if (!mustShed()) return undefined;
      onShed();
      return tooMuch;
    },
    counting: (service) => ({
      shouldRateLimit(request, caller, reply) {
        underWay++;
        return service.shouldRateLimit(request, caller, (outcome) => {
          underWay--;
          reply(outcome);
        });
      },
    }),
  };
}
