import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData } from '@grpc/grpc-js';
import { rateLimitService } from '../../src/edge/rls/proto.ts';
import type { WireRequest, WireResponse } from '../../src/edge/wire/wire.ts';
import type { GrpcError } from '../../src/h2/grpc/grpc-status.ts';
import { holdsService } from '../../src/parts/holds/methods.ts';
import { freePort } from '../helpers/process.ts';
import { closeLater } from './service.ts';

type Handler<Q, R> = (request: Q, call: ServerUnaryCall<Q, R>) => R | Promise<R>;

/** A server's handlers; absent methods are not implemented. */
export interface Script {
  readonly port?: number;
  readonly shouldRateLimit?: Handler<WireRequest, WireResponse>;
  readonly acquire?: Handler<object, object>;
  readonly renew?: Handler<object, object>;
  readonly release?: Handler<{ readonly request: WireRequest | null }, object>;
}

/** An answer without a limit. */
export const allowed: WireResponse = { overall_code: 1, statuses: [], response_headers_to_add: [] };

/** Starts a server with a test's handlers. Unlike Weir, it does not support batches. */
export async function startScripted(script: Script): Promise<{ readonly target: string; stop(): void }> {
  const { port = await freePort(), shouldRateLimit, acquire, renew, release } = script;
  const server = new Server();
  if (shouldRateLimit) server.addService(rateLimitService, { shouldRateLimit: handlerOf(shouldRateLimit) });
  if (acquire && renew && release) {
    const handlers = { acquire: handlerOf(acquire), renew: handlerOf(renew), release: handlerOf(release) };
    server.addService(holdsService, handlers);
  }
  await new Promise<void>((resolve, reject) => {
    const done = (error: Error | null) => (error ? reject(error) : resolve());
    server.bindAsync(`127.0.0.1:${port}`, ServerCredentials.createInsecure(), done);
  });
  const stop = (): void => server.forceShutdown();
  closeLater(stop);
  return { target: `127.0.0.1:${port}`, stop };
}

const handlerOf =
  <Q, R>(handle: Handler<Q, R>) =>
  async (call: ServerUnaryCall<Q, R>, done: sendUnaryData<R>): Promise<void> => {
    try {
      done(null, await handle(call.request, call));
    } catch (error) {
      done(error as GrpcError); // what scripts throw
    }
  };
