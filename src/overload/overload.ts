import { status } from '../grpc-status.ts';
import type { GrpcStatus, RlsService } from '../rls/service.ts';
import { type CallQueue, createCallQueue } from './call-queue.ts';
import { CallerMemory, defaultCallerMemoryBytes } from './caller-memory.ts';
import { watchEventLoop } from './event-loop.ts';
import { createShedding } from './shedding.ts';

export interface OverloadOptions {
  /** Calls at a time, held calls included; more are refused. */
  readonly maxInFlight: number;
  /** How late timers are when this process does not keep up; 0: calls are never refused for that. */
  readonly lagMs: number;
  /** What callers may make this process hold; undefined: a part of V8's heap limit. */
  readonly memoryBytes: number | undefined;
  /** Called for each call that is refused. */
  readonly onShed: () => void;
}

/** What protects the process from its callers: work in slices, calls refused while there is too much to do, memory accounted for. */
export interface Overload {
  readonly memory: CallerMemory;
  readonly queue: CallQueue;
  /** Why the next call is not even read; undefined: it is. To be asked once for each call, as early as can be. */
  refusal(): GrpcStatus | undefined;
  /** Why a call is refused that has waited for too long. */
  readonly tooLate: () => GrpcStatus;
  /** The service, but its calls count as in flight. */
  counting(service: RlsService): RlsService;
  /** Calls that are handled or wait, those that are held included. */
  inFlight(): number;
  /** Of all calls the share that is refused since this process is late, 0 to 1. */
  shedShare(): number;
  close(): void;
}

/** A call waits in the queue for so many times `lagMs` at most: with what it takes then, it is answered within Envoy's default of 20 ms. */
const MAX_WAIT_PER_LAG = 2;

const overloaded: GrpcStatus = { code: status.RESOURCE_EXHAUSTED, details: 'overloaded, try again' };

export function openOverload({ maxInFlight, lagMs, memoryBytes, onShed }: OverloadOptions): Overload {
  const eventLoop = watchEventLoop(lagMs);
  const queue = createCallQueue(lagMs > 0 ? lagMs * MAX_WAIT_PER_LAG : Number.POSITIVE_INFINITY);
  const shedding = createShedding({ maxInFlight, share: eventLoop.share, waiting: () => queue.length });
  const shed = (): GrpcStatus => {
    onShed();
    return overloaded;
  };
  return {
    memory: new CallerMemory(memoryBytes ?? defaultCallerMemoryBytes()),
    queue,
    refusal: () => (queue.isBehind || shedding.mustShed() ? shed() : undefined),
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
