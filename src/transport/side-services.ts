import type { Server } from '@grpc/grpc-js';
import { healthService, rulesService } from '../rls/proto.ts';
import type { GrpcServerOptions } from './grpc-server.ts';
import { healthHandlers } from './health-service.ts';
import { addReflection } from './reflection.ts';
import { rulesHandlers } from './rules-service.ts';
import { startTimer } from './timer.ts';

/** Where services can be added: a server of grpc-js, or what hosts handlers that were written for one. */
export type ServiceHost = Pick<Server, 'addService'>;

/** Adds what a gRPC server of ours has besides decisions: health, reflection, and which rules descriptors meet. */
export function addSideServices(host: ServiceHost, options: GrpcServerOptions): void {
  host.addService(healthService, healthHandlers(options.health, options.onCall));
  const { rules } = options;
  if (rules) host.addService(rulesService, rulesHandlers(rules));
  addReflection(host, options.startTimer ?? startTimer);
}
