import { HealthImplementation, type ServingStatus } from 'grpc-health-check';

/** Whether the service can decide requests, and if not, why. */
export interface Readiness {
  readonly ready: boolean;
  /** Why not, one text a reason. Empty when ready. */
  readonly reasons: readonly string[];
  /** What operators should know besides, ready or not. */
  readonly notes?: readonly string[];
}

/** `grpc.health.v1.Health`, kept in step with the service's own readiness. */
export interface Health {
  readonly implementation: HealthImplementation;
  /** Makes sure that the next answer is of this moment. */
  look(): void;
  close(): void;
}

/** How often readiness is looked at: the longest that a Watch lags behind. */
const LOOK_INTERVAL_MS = 200;

/**
 * Two names, as envoyproxy/ratelimit has them: `ratelimit` is SERVING while the service is ready; the empty name is
 * SERVING as long as the process answers at all.
 */
export function createHealth(readiness: () => Readiness): Health {
  const statusNow = (): ServingStatus => (readiness().ready ? 'SERVING' : 'NOT_SERVING');
  let last = statusNow();
  const implementation = new HealthImplementation({ '': 'SERVING', ratelimit: last });
  const look = (): void => {
    const now = statusNow();
    if (now !== last) implementation.setStatus('ratelimit', now);
    last = now;
  };
  const timer = setInterval(look, LOOK_INTERVAL_MS);
  timer.unref();
  return {
    implementation,
    look,
    close() {
      clearInterval(timer);
      implementation.setStatus('ratelimit', 'NOT_SERVING');
    },
  };
}
