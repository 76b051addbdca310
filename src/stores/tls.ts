import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';

/** How a server of counters is known, and this client to it: paths of files in PEM, empty where there are none. */
export interface ClientTls {
  readonly caFile: string;
  readonly certFile: string;
  readonly keyFile: string;
  /** Any name will do in the server's certificate; it must be of the authority all the same. */
  readonly skipHostnameVerification: boolean;
}

/** @throws Error  of the file system, when a file cannot be read */
export function tlsOptions({ caFile, certFile, keyFile, skipHostnameVerification }: ClientTls): ConnectionOptions {
  return {
    ...(caFile !== '' && { ca: readFileSync(caFile) }),
    ...(certFile !== '' && { cert: readFileSync(certFile) }),
    ...(keyFile !== '' && { key: readFileSync(keyFile) }),
    ...(skipHostnameVerification && { checkServerIdentity: () => undefined }),
  };
}
