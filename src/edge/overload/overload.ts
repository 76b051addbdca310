import { monotonicMs } from '../../base/clock.ts';
import { TimerLag } from '../../base/timer-lag.ts';
import { createCallQueue } from '../../h2/bounds/call-queue.ts';
import { CallerMemory, defaultCallerMemoryBytes } from '../../h2/bounds/caller-memory.ts';
import { LateCalls } from '../../h2/bounds/late-calls.ts';
import { status } from '../../h2/grpc/grpc-status.ts';
import type { Admission } from '../../h2/grpc/unary-call.ts';
import type { createCountLate } from '../rls/count-late.ts';
import type { AnswerKnown, Caller, GrpcStatus, MissedBy, RlsService } from '../rls/service.ts';

type CountLate = ReturnType<typeof createCountLate>;

interface OverloadOptions {
  /** Maximum number of calls in flight, including delayed ones; more are refused. */
  readonly maxInFlight: number;
  /** Limit on the memory held for callers. Default: a fraction of V8's heap limit. */
  readonly memoryBytes: number | undefined;
  readonly countLate: CountLate;
  readonly answerKnown: AnswerKnown;
  /** Called for each call that got no decision. @param caller  absent if it is not known */
  readonly onMissed: (by: MissedBy, caller?: Pick<Caller, 'header' | 'connection'>) => void;
}

/** Protects against overload by bounding the work per turn and the memory of each connection. */
export type Overload = ReturnType<typeof openOverload>;

const tooMany: GrpcStatus = {
  code: status.RESOURCE_EXHAUSTED,
  details: 'too many calls in flight (MAX_IN_FLIGHT_CALLS)',
};

export function openOverload({ maxInFlight, memoryBytes, onMissed, countLate, answerKnown }: OverloadOptions) {
  const lateCalls = new LateCalls();
  const queue = createCallQueue(lateCalls);
  let handled = 0;
  const inFlight = (): number => handled + queue.length;
  let hasCalls = false;
  const lag = new TimerLag({
    intervalMs: 1_000,
    measurements: 15, // the interval of scrapes
    monotonicMs,
    isNeeded() {
      const isNeeded = hasCalls || inFlight() > 0;
      hasCalls = false;
      return isNeeded;
    },
  });
  const admission: Admission = {
    queue,
    lateCalls,
    refusal() {
      hasCalls = true;
      lag.wake();
      if (inFlight() < maxInFlight) return undefined;
      onMissed('in_flight');
      return tooMany;
    },
    missed: onMissed,
  };
  return {
    ...admission,
    memory: new CallerMemory(memoryBytes ?? defaultCallerMemoryBytes()),
    countLate,
    answerKnown,
    /** Wraps the service to count its calls as in flight. */
    counting: (service: RlsService): RlsService => ({
      shouldRateLimit(request, caller, reply) {
        handled++;
        return service.shouldRateLimit(request, caller, (outcome) => {
          handled--;
          reply(outcome);
        });
      },
    }),
    /** Number of calls that are handled, queued or delayed. */
    inFlight,
    /** Maximum delay of this process's timers in the last seconds with calls; 0 without calls. */
    latenessMs: () => lag.maxMs(),
    close(): void {
      lag.close();
      queue.close();
    },
  };
}
