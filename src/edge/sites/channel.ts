import { Client, credentials, experimental, type handleUnaryCall, Server, status } from '@grpc/grpc-js';
import { CallerMemory } from '../../h2/bounds/caller-memory.ts';
import { serverIdentity } from '../../h2/identity/grpc-tls.ts';
import { listen } from '../../h2/listen/listener.ts';
import { injectConnections } from '../grpc/injected-connections.ts';
import { certificateProvider, type SiteCertificates } from './certificate-provider.ts';
import { type Lender, OtherSites } from './lender.ts';
import type { BorrowRequest, BorrowResponse } from './messages.ts';
import { borrowMethod, sitesService } from './proto.ts';

/** Calls one other site. */
export interface SiteChannel {
  borrow(request: BorrowRequest): Promise<BorrowResponse>;
  close(): void;
}

/** The timeout of a call: a later response is of no use. */
const CALL_TIMEOUT_MS = 1_000;
/** A lost connection is tried again at least this often. */
const MAX_RECONNECT_MS = 1_000;
const KEEPALIVE_MS = 5_000;
const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;
/** The most connections of other sites, and the memory of their connections themselves. */
const MAX_CONNECTIONS = 100;
const MEMORY_BYTES = 16 * 1024 * 1024;

/**
 * Connects to a site, and reconnects whenever the connection is lost.
 *
 * @param address  `host:port`
 * @param certificates  undefined: plain text
 * @param nowMs    for deadlines
 */
export function openSiteChannel(
  address: string,
  certificates: SiteCertificates | undefined,
  nowMs: () => number,
): SiteChannel {
  const { verify, channel } = serverIdentity(address);
  const provider = certificates && certificateProvider(certificates);
  const channelCredentials = provider
    ? experimental.createCertificateProviderChannelCredentials(provider, provider, verify)
    : credentials.createInsecure();
  const client = new Client(address, channelCredentials, {
    'grpc.initial_reconnect_backoff_ms': 100,
    'grpc.max_reconnect_backoff_ms': MAX_RECONNECT_MS,
    'grpc.keepalive_time_ms': KEEPALIVE_MS,
    'grpc.keepalive_timeout_ms': CALL_TIMEOUT_MS,
    'grpc.enable_retries': 0, // the next exchange repeats everything
    'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
    ...channel,
  });
  const { path, requestSerialize, responseDeserialize } = borrowMethod;
  return {
    borrow: (request) =>
      new Promise((resolve, reject) => {
        const deadline = nowMs() + CALL_TIMEOUT_MS;
        client.makeUnaryRequest(
          path,
          requestSerialize,
          responseDeserialize,
          request,
          { deadline },
          (error, response) => (error ? reject(error) : resolve(response ?? { loans: [] })),
        );
      }),
    close: () => client.close(),
  };
}

export interface SiteServer {
  readonly port: number;
  close(): Promise<void>;
}

/**
 * Serves other sites; with TLS, only those whose certificate is of the same authority.
 *
 * @throws Error if the address cannot be bound
 */
export async function startSiteServer(
  address: { readonly host: string; readonly port: number },
  certificates: SiteCertificates | undefined,
  lender: Pick<Lender, 'lend'>,
): Promise<SiteServer> {
  const server = new Server({ 'grpc.max_receive_message_length': MAX_MESSAGE_BYTES });
  const Borrow: handleUnaryCall<BorrowRequest, BorrowResponse> = ({ request }, callback) => {
    lender.lend(request).then(
      (response) => callback(null, response),
      (error: unknown) =>
        callback(
          error instanceof OtherSites
            ? { code: status.FAILED_PRECONDITION, details: error.message }
            : { code: status.INTERNAL, details: 'internal error' },
        ),
    );
  };
  server.addService(sitesService, { Borrow });
  const { onConnection } = injectConnections(server);
  const listener = await listen(address, certificates && { certificates, clientName: undefined }, {
    maxCount: MAX_CONNECTIONS,
    memory: new CallerMemory(MEMORY_BYTES),
    onConnection,
  });
  return {
    port: listener.port,
    async close() {
      const closed = listener.close();
      server.forceShutdown();
      listener.destroyAll();
      await closed;
    },
  };
}
