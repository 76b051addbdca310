import type { Server } from '@grpc/grpc-js';
import { healthService } from '../rls/proto.ts';
import type { GrpcServerOptions } from './grpc-server.ts';
import { healthHandlers } from './health-service.ts';
import { addReflection } from './reflection.ts';
import { startTimer } from './timer.ts';

/** Where services can be added: a server of grpc-js, or what hosts handlers that were written for one. */
export type ServiceHost = Pick<Server, 'addService'>;

/** Adds what a gRPC server of ours has besides decisions: health and reflection. */
export function addSideServices(host: ServiceHost, options: GrpcServerOptions): void {
  host.addService(healthService, healthHandlers(options.health, options.onCall));
  addReflection(host, options.startTimer ?? startTimer);
}
