import type { handleUnaryCall, Server } from '@grpc/grpc-js';
import { ReflectionService } from '@grpc/reflection';
import { describedServices } from '../rls/proto.ts';
import { type GrpcServerOptions, told } from './grpc-server.ts';

/** Where services can be added: a server of grpc-js, or what hosts handlers that were written for one. */
export type ServiceHost = Pick<Server, 'addService'>;

/** Adds what a gRPC server of ours has besides decisions: health and reflection. */
export function addSideServices(host: ServiceHost, { health, onCall }: GrpcServerOptions): void {
  health.implementation.addToServer({
    addService(definition, handlers) {
      const inner = handlers.check as handleUnaryCall<unknown, unknown>; // as health.proto has it
      const check: typeof inner = (call, callback) => {
        health.look();
        inner(call, callback);
      };
      host.addService(definition, { ...handlers, check: told('Check', check, onCall) });
    },
  });
  new ReflectionService(describedServices).addToServer(host as Server); // all that it calls is addService
}
