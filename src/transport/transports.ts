import { startH2Server } from './grpc-h2.ts';
import { startGrpcJsServer } from './grpc-js.ts';
import type { GrpcServer, GrpcServerOptions } from './grpc-server.ts';

/** The gRPC server implementations, by their name in GRPC_TRANSPORT. */
export const transports = {
  h2: (options: GrpcServerOptions): Promise<GrpcServer> => startH2Server(options),
  'grpc-js': startGrpcJsServer,
} as const;
