import type { handleBidiStreamingCall, Server, UntypedServiceImplementation } from '@grpc/grpc-js';
import { ReflectionService } from '@grpc/reflection';
import { describedServices } from '../rls/proto.ts';
import { sideLimits } from './side-limits.ts';
import type { StartTimer } from './timer.ts';

type Handler = handleBidiStreamingCall<unknown, unknown>;

/** Adds the reflection service, `v1` and `v1alpha`. */
export function serveReflection(host: Pick<Server, 'addService'>, startTimer: StartTimer): void {
  const bounded: Pick<Server, 'addService'> = {
    addService(definition, handlers) {
      const wrapped = Object.entries(handlers).map(([name, handler]) => {
        const streaming = handler as Handler; // the service has no others
        return [name, endWhenSilent(startTimer, waitForRoom(streaming))] as const;
      });
      host.addService(definition, Object.fromEntries(wrapped) satisfies UntypedServiceImplementation);
    },
  };
  new ReflectionService(describedServices).addToServer(bounded as Server); // all that it calls is addService
}

/** Ends a call with OK when its client has sent nothing for a while: clients open a stream, ask, and may never close it. */
const endWhenSilent =
  (startTimer: StartTimer, handle: Handler): Handler =>
  (call) => {
    const timer = startTimer(sideLimits.maxSilenceMs, () => call.end());
    call.on('data', () => timer.restart());
    call.once('end', () => timer.stop());
    call.once('cancelled', () => timer.stop());
    handle(call);
  };

/** Reads no further question of a call whose answers pile up. This is for grpc-js; a `HostedCall` never needs a drain, and bounds what it writes itself. */
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
