import { startH2Server } from '../../edge/grpc/grpc-h2.ts';
import type { GrpcServerOptions } from '../../edge/grpc/grpc-server.ts';
import type { GrpcServer } from '../../h2/server.ts';
import { otherTransports } from '../../parts/parts.ts';
import type { Settings } from '../../settings/settings.ts';

/**
 * Starts the gRPC server that has this name in GRPC_TRANSPORT.
 *
 * @throws Error if the address cannot be bound, or this build does not have the server
 */
export async function startGrpcServer(
  transport: Settings['grpc']['transport'],
  options: GrpcServerOptions,
): Promise<GrpcServer> {
  if (transport === 'h2') return startH2Server(options);
  const start = await otherTransports[transport]?.();
  if (!start) throw new Error(`this build has no GRPC_TRANSPORT ${transport}`);
  return start(options);
}
