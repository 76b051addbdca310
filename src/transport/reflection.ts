import type { handleBidiStreamingCall, Server, UntypedServiceImplementation } from '@grpc/grpc-js';
import { ReflectionService } from '@grpc/reflection';
import { describedServices } from '../rls/proto.ts';
import { sideLimits } from './side-limits.ts';
import type { StartTimer } from './timer.ts';

type Handler = handleBidiStreamingCall<unknown, unknown>;

/** Adds the reflection service, `v1` and `v1alpha`. */
export function serveReflection(host: Pick<Server, 'addService'>, startTimer: StartTimer, hasQuotas: boolean): void {
  const bounded: Pick<Server, 'addService'> = {
    addService(definition, handlers) {
      const wrapped = Object.entries(handlers).map(([name, handler]) => {
        const streaming = handler as Handler; // the service has only streaming methods
        return [name, endWhenSilent(startTimer, waitForRoom(streaming))] as const;
      });
      host.addService(definition, Object.fromEntries(wrapped) satisfies UntypedServiceImplementation);
    },
  };
  new ReflectionService(describedServices(hasQuotas)).addToServer(bounded as Server); // it only calls addService
}

/**
 * Ends a call with OK when its client is silent for too long: clients may never close a stream after their last
 * request.
 */
const endWhenSilent =
  (startTimer: StartTimer, handle: Handler): Handler =>
  (call) => {
    const timer = startTimer(sideLimits.maxSilenceMs, () => call.end());
    call.on('data', () => timer.restart());
    call.once('end', () => timer.stop());
    call.once('cancelled', () => timer.stop());
    handle(call);
  };

/**
 * Pauses a call whose client does not read its answers. For grpc-js; a `HostedCall` bounds its output itself and never
 * needs a drain.
 */
const waitForRoom =
  (handle: Handler): Handler =>
  (call) => {
    handle(call);
    call.on('data', () => {
      if (!call.writableNeedDrain) return;
      call.pause();
      call.once('drain', () => call.resume());
    });
  };
