import type { Server } from '@grpc/grpc-js';
import { healthService, rulesService } from '../rls/proto.ts';
import type { GrpcServerOptions } from './grpc-server.ts';
import { healthHandlers } from './health-service.ts';
import { addReflection } from './reflection.ts';
import { rulesHandlers } from './rules-service.ts';
import { startTimer } from './timer.ts';

/** A grpc-js server, or another host for handlers written for grpc-js. */
export type ServiceHost = Pick<Server, 'addService'>;

/** Adds health, reflection and `weir.v1.Rules` to a server. */
export function addSideServices(host: ServiceHost, options: GrpcServerOptions): void {
  host.addService(healthService, healthHandlers(options.health, options.onCall));
  const { rules } = options;
  if (rules) host.addService(rulesService, rulesHandlers(rules));
  addReflection(host, options.startTimer ?? startTimer);
}
