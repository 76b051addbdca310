import { status } from '@grpc/grpc-js';
import type { RlsService } from './service.ts';

export interface SheddingOptions {
  /** Calls at a time; more are refused. */
  readonly maxUnderWay: number;
  /** Whether this process is behind with its work. */
  readonly isBehind: () => boolean;
  /** Is told of each call that is refused. */
  readonly onShed: () => void;
}

const tooMuch = {
  code: status.RESOURCE_EXHAUSTED,
  details: 'the service has more to do than it can: try again',
} as const;

/**
 * Refuses calls at once, without a look at them, while there is more to do than can be done in time: refusing costs a fraction of deciding, so that what
 * is decided is decided before its caller has gone.
 */
export function createSheddingService(
  service: RlsService,
  { maxUnderWay, isBehind, onShed }: SheddingOptions,
): RlsService {
  let underWay = 0;
  return {
    shouldRateLimit(request, caller, reply) {
      if (underWay >= maxUnderWay || isBehind()) {
        onShed();
        reply({ error: tooMuch });
        return Promise.resolve();
      }
      underWay++;
      return service.shouldRateLimit(request, caller, (outcome) => {
        underWay--;
        reply(outcome);
      });
    },
  };
}
