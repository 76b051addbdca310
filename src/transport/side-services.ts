import type { Server } from '@grpc/grpc-js';
import { healthService } from '../rls/proto.ts';
import type { GrpcServerOptions } from './grpc-server.ts';
import { healthHandlers } from './health-service.ts';
import { addReflection } from './reflection.ts';
import { startTimer } from './timer.ts';

/** A grpc-js server, or another host for handlers written for grpc-js. */
export type ServiceHost = Pick<Server, 'addService'>;

/** Adds health and reflection to a server. */
export function addSideServices(host: ServiceHost, options: GrpcServerOptions): void {
  host.addService(healthService, healthHandlers(options.health, options.onCall));
  addReflection(host, options.startTimer ?? startTimer);
}
