import type { GrpcServerOptions } from '../../edge/grpc/grpc-server.ts';
import { transports } from '../../edge/grpc/transports.ts';
import type { GrpcServer } from '../../h2/server.ts';
import type { Settings } from '../../settings/settings.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import { type Add, start } from '../parts/start-up.ts';
import { openTls } from '../parts/tls.ts';

/** The services that the server offers; its other options come from the settings. */
export type GrpcHandlers = Omit<GrpcServerOptions, 'address' | 'connections' | 'tls' | 'clock' | 'startTimer'>;

/**
 * @param add  registers the certificates to be closed with the other parts
 * @throws CannotStart if the address cannot be bound, or certificates cannot be used
 */
export async function openGrpc(
  { address, transport, tls, connections }: Settings['grpc'],
  handlers: GrpcHandlers,
  add: Add,
  context: ProcessContext,
): Promise<GrpcServer> {
  const certificates = tls && add(await openTls('GRPC_SERVER_USE_TLS', tls.files, context));
  const [variable, place] =
    'path' in address ? ['GRPC_UDS', address.path] : ['GRPC_PORT', `${address.host}:${address.port}`];
  return start(variable, `cannot listen on ${place}`, () =>
    transports[transport]({
      ...{ ...handlers, address, connections, clock: context.clock },
      tls: certificates && { certificates, clientName: tls.clientName },
    }),
  );
}
