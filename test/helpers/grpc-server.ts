import { startH2Server } from '../../src/edge/grpc/grpc-h2.ts';
import type { GrpcServerOptions } from '../../src/edge/grpc/grpc-server.ts';
import { Health } from '../../src/edge/rls/health.ts';
import type { RlsService } from '../../src/edge/rls/service.ts';
import type { WireResponse } from '../../src/edge/wire/wire.ts';
import type { GrpcServer } from '../../src/h2/server.ts';
import { offerReflection } from '../../src/parts/reflection/offer.ts';
import type { StartTimer } from '../../src/parts/reflection/reflection.ts';
import { overloadOf } from './overload.ts';

/** The transport under test in this run: see jest.config.js. */
export const transport = (globalThis as { transport?: 'h2' | 'grpc-js' }).transport ?? 'h2'; // set by jest.config.js

/** Starts a server on that transport. */
export const startGrpcServer = async (options: GrpcServerOptions): Promise<GrpcServer> => {
  if (transport === 'h2') return startH2Server(options);
  return (await import('../../src/parts/grpc-js/grpc-js.ts')).startGrpcJsServer(options);
};

export const OK: WireResponse = { overall_code: 1, statuses: [], response_headers_to_add: [] };

/** Answers every request with OK. */
export const agreeable: RlsService = { shouldRateLimit: async (_request, _caller, reply) => reply({ response: OK }) };

/** Options of a server, and timers for its reflection streams. */
export type ServerChanges = Partial<GrpcServerOptions> & { readonly startTimer?: StartTimer };

/** Adds the reflection service. */
export const withReflection = ({ startTimer, others = [], ...changes }: ServerChanges): Partial<GrpcServerOptions> => ({
  ...changes,
  others: [
    ...others,
    offerReflection({ offered: () => others.flatMap(({ paths }) => paths), ...(startTimer && { startTimer }) }),
  ],
});

/** Starts a gRPC server on a free port of 127.0.0.1 that is ready and answers OK; `changes` override its options. */
export const startServer = (changes: ServerChanges = {}): Promise<GrpcServer> =>
  startGrpcServer({
    address: { host: '127.0.0.1', port: 0 },
    service: agreeable,
    health: new Health(() => ({ ready: true, reasons: [] })),
    clock: Date.now,
    overload: overloadOf(),
    ...withReflection(changes),
  });
