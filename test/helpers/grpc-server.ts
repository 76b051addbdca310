import type { GrpcServerOptions } from '../../src/edge/grpc/grpc-server.ts';
import { transports } from '../../src/edge/grpc/transports.ts';
import { createHealth } from '../../src/edge/rls/health.ts';
import type { RlsService } from '../../src/edge/rls/service.ts';
import type { WireResponse } from '../../src/engine/wire/wire.ts';
import type { GrpcServer } from '../../src/h2/server.ts';
import { overloadOf } from './overload.ts';

/** The transport under test in this run: see jest.config.js. */
export const transport = (globalThis as { transport?: keyof typeof transports }).transport ?? 'h2'; // set by jest.config.js

/** Starts a server on that transport. */
export const startGrpcServer = transports[transport];

export const OK: WireResponse = { overall_code: 1, statuses: [], response_headers_to_add: [] };

/** Answers every request with OK. */
export const agreeable: RlsService = { shouldRateLimit: async (_request, _caller, reply) => reply({ response: OK }) };

/** Starts a gRPC server on a free port of 127.0.0.1 that is ready and answers OK; `changes` override its options. */
export const startServer = (changes: Partial<GrpcServerOptions> = {}): Promise<GrpcServer> =>
  startGrpcServer({
    address: { host: '127.0.0.1', port: 0 },
    service: agreeable,
    health: createHealth(() => ({ ready: true, reasons: [] })),
    clock: Date.now,
    overload: overloadOf(),
    ...changes,
  });
