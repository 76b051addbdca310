import { status } from '../grpc-status.ts';
import type { GrpcStatus, RlsService } from '../rls/service.ts';
import { type CallQueue, createCallQueue } from './call-queue.ts';
import { CallerMemory, defaultCallerMemoryBytes } from './caller-memory.ts';
import { watchEventLoop } from './event-loop.ts';
import { createShedding } from './shedding.ts';

export interface OverloadOptions {
  /** Maximum number of calls in flight, held calls included; more are refused. */
  readonly maxInFlight: number;
  /** Timer lag at which the process counts as overloaded; 0: lag never causes refusals. */
  readonly lagMs: number;
  /** Memory that may be held for callers; undefined: a share of V8's heap limit. */
  readonly memoryBytes: number | undefined;
  /** Called for each call that is refused. */
  readonly onShed: () => void;
}

/** Overload protection: bounded work per turn, load shedding, and a memory account for each connection. */
export interface Overload {
  readonly memory: CallerMemory;
  readonly queue: CallQueue;
  /** Why to refuse the next call before it is read; undefined: admit it. Call once per call, as early as possible. */
  refusal(): GrpcStatus | undefined;
  /** The status of calls that waited in the queue for too long. Each call counts as one refusal. */
  readonly tooLate: () => GrpcStatus;
  /** Wraps the service to count its calls as in flight. */
  counting(service: RlsService): RlsService;
  /** Calls that are handled, queued or held. */
  inFlight(): number;
  /** The share of all calls that is refused because this process is late, 0 to 1. */
  shedShare(): number;
  close(): void;
}

/**
 * Longest wait in the queue, in multiples of `lagMs`: with its handling, the call is answered within Envoy's default
 * timeout of 20 ms.
 */
const MAX_WAIT_PER_LAG = 2;

const overloaded: GrpcStatus = { code: status.RESOURCE_EXHAUSTED, details: 'overloaded, try again' };

export function openOverload({ maxInFlight, lagMs, memoryBytes, onShed }: OverloadOptions): Overload {
  const eventLoop = watchEventLoop({ lateMs: lagMs, isBusy: () => shedding.inFlight() > 0 });
  const queue = createCallQueue(lagMs > 0 ? lagMs * MAX_WAIT_PER_LAG : Number.POSITIVE_INFINITY);
  const shedding = createShedding({ maxInFlight, share: eventLoop.share, waiting: () => queue.length });
  const shed = (): GrpcStatus => {
    onShed();
    return overloaded;
  };
  return {
    memory: new CallerMemory(memoryBytes ?? defaultCallerMemoryBytes()),
    queue,
    refusal() {
      eventLoop.wake();
      if (!queue.isBehind && !shedding.mustShed()) return undefined;
      queue.noteRefusal();
      return shed();
    },
    tooLate: shed,
    counting: shedding.counting,
    inFlight: shedding.inFlight,
    shedShare: () => 1 - eventLoop.share(),
    close() {
      eventLoop.close();
      queue.close();
    },
  };
}
