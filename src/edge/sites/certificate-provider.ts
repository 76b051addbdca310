import type { experimental } from '@grpc/grpc-js';
import type { TlsOptions } from '../../h2/listen/listener.ts';

/** The certificate of this site, for both directions, and the authority of all sites. */
export type SiteCertificates = TlsOptions['certificates'];

/**
 * Passes certificates, and each change of them, to `@grpc/grpc-js`: new connections use the ones in force.
 *
 * @see https://github.com/grpc/proposal/blob/master/A29-xds-tls-security.md#certificate-provider-plugin-framework
 */
export function certificateProvider(certificates: SiteCertificates): experimental.CertificateProvider {
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
