import { Client, credentials, experimental } from '@grpc/grpc-js';
import { CallerMemory } from '../../h2/bounds/caller-memory.ts';
import { status } from '../../h2/grpc/grpc-status.ts';
import { defaultMethodLimits } from '../../h2/grpc/method.ts';
import { Router } from '../../h2/grpc/router.ts';
import { serverIdentity } from '../../h2/identity/grpc-tls.ts';
import type { TlsOptions } from '../../h2/listen/listener.ts';
import { serve } from '../../h2/server.ts';
import { type Lender, OtherSites } from './lender.ts';
import { type BorrowRequest, type BorrowResponse, borrowMethod } from './messages.ts';

/** Timeout of a call, after which a response is of no use. */
const CALL_TIMEOUT_MS = 1_000;
/** Maximum delay before a lost connection is tried again. */
const MAX_RECONNECT_MS = 1_000;
const KEEPALIVE_MS = 5_000;
const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;
/** Maximum number of connections from other sites, and their own memory. */
const MAX_CONNECTIONS = 100;
const MEMORY_BYTES = 16 * 1024 * 1024;

/**
 * Connects to a site, and reconnects whenever the connection is lost.
 *
 * @param address  `host:port`
 * @param certificates  undefined for plain text
 * @param nowMs    clock of deadlines
 */
export function openSiteChannel(address: string, certificates: SiteCertificates | undefined, nowMs: () => number) {
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
    borrow: (request: BorrowRequest): Promise<BorrowResponse> =>
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
    close: (): void => client.close(),
  };
}

/**
 * Serves other sites; with TLS, only those with a certificate of the same authority.
 *
 * @throws Error if the address cannot be bound
 */
export async function startSiteServer(
  address: { readonly host: string; readonly port: number },
  certificates: SiteCertificates | undefined,
  lender: Pick<Lender, 'lend'>,
) {
  const router = new Router();
  router.add<BorrowRequest, BorrowResponse>({
    kind: 'unary',
    path: borrowMethod.path,
    decode: borrowMethod.requestDeserialize,
    encode: borrowMethod.responseSerialize,
    limits: { ...defaultMethodLimits, maxMessageBytes: MAX_MESSAGE_BYTES },
    handle(request, call) {
      const answer = (response: BorrowResponse): void => {
        call.send(response);
        call.end();
      };
      lender.lend(request).then(answer, (error: unknown) => {
        if (error instanceof OtherSites) call.fail(status.FAILED_PRECONDITION, error.message);
        else call.fail(status.INTERNAL, 'internal error');
      });
    },
  });
  const server = await serve(router, {
    address,
    tls: certificates && { certificates, clientName: undefined },
    connections: {
      maxCount: MAX_CONNECTIONS,
      maxAgeMs: 0,
      maxAgeGraceMs: 0,
      keepaliveTimeMs: 0,
      keepaliveTimeoutMs: 0,
    },
    memory: new CallerMemory(MEMORY_BYTES),
  });
  return { port: Number(server.target.split(':').at(-1)), close: () => server.close(0) };
}

/** Certificate of this site for both directions, and the authority of all sites. */
type SiteCertificates = TlsOptions['certificates'];

/**
 * Passes certificates and their changes to `@grpc/grpc-js`, which uses the current ones for new connections.
 *
 * @see https://github.com/grpc/proposal/blob/master/A29-xds-tls-security.md#certificate-provider-plugin-framework
 */
function certificateProvider(certificates: SiteCertificates): experimental.CertificateProvider {
  const listeners = new Map<unknown, () => void>();
  const add = (listener: unknown, send: () => void): void => {
    listeners.set(listener, certificates.onChange(send));
    queueMicrotask(send); // grpc-js ignores an update that arrives before this call returns
  };
  const remove = (listener: unknown): void => {
    listeners.get(listener)?.();
    listeners.delete(listener);
  };
  return {
    addCaCertificateListener: (listener) =>
      add(listener, () => {
        const { ca } = certificates.current();
        listener(ca === undefined ? null : { caCertificate: Buffer.from(ca) });
      }),
    addIdentityCertificateListener: (listener) =>
      add(listener, () => {
        const { cert, key } = certificates.current();
        listener({ certificate: Buffer.from(cert), privateKey: Buffer.from(key) });
      }),
    removeCaCertificateListener: remove,
    removeIdentityCertificateListener: remove,
  };
}
