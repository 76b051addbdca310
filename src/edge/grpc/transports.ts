import type { GrpcServer } from '../../h2/server.ts';
import { startH2Server } from './grpc-h2.ts';
import type { GrpcServerOptions } from './grpc-server.ts';

/** The gRPC server implementations, by their names in GRPC_TRANSPORT. */
export const transports = {
  h2: (options: GrpcServerOptions): Promise<GrpcServer> => startH2Server(options),
  'grpc-js': async (options: GrpcServerOptions): Promise<GrpcServer> =>
    (await import('../../parts/grpc-js/grpc-js.ts')).startGrpcJsServer(options), // imports a library that h2 does not need
} as const;
