import { readFileSync } from 'node:fs';
import { type ConnectionOptions, createSecureContext, type SecureContext, type SecureContextOptions } from 'node:tls';
import { systemCas } from '../../h2/identity/system-cas.ts';
import { firstUsable, keepUsable, onPass } from '../../h2/listen/usable-files.ts';

/** Certificates of a store's client, as paths of PEM files; empty if there is none. */
export interface ClientTls {
  /** File with the CA; empty for the system's CAs. */
  readonly caFile: string;
  readonly certFile: string;
  readonly keyFile: string;
  /** Whether the server's certificate may have any name; it must still be issued by the CA. */
  readonly skipHostnameVerification: boolean;
}

/**
 * Options whose `secureContext` is read from the files for each new connection. Files that cannot be used, as in the
 * middle of a rotation, leave the last usable ones in use.
 *
 * @param onProblem  called with each new reason why the files cannot be used
 * @throws Error  of the file system or of OpenSSL, if the files cannot be used at the start
 * @internal
 */
export function tlsOptions(tls: ClientTls, onProblem: (problem: string) => void = () => {}): ConnectionOptions {
  let problem = '';
  const report = (error: unknown): void => {
    const reason = error instanceof Error ? error.message : String(error);
    if (reason !== problem) onProblem(`TLS files cannot be used: ${reason}; the last usable ones stay in use`);
    problem = reason;
  };
  let { files, context } = firstUsable(
    { ...tls },
    (texts: SecureContextOptions = read(tls)) => ({ files: texts, context: createContext(texts) }),
    report,
  );
  keepUsable({ ...tls }, { ...files });
  const refresh = (): SecureContext => {
    try {
      const found = read(tls);
      if (!isSame(found, files)) {
        context = createContext(found);
        keepUsable({ ...tls }, { ...found });
      }
      files = found;
      problem = '';
    } catch (error) {
      report(error);
    }
    return context;
  };
  onPass(refresh);
  return {
    get secureContext() {
      return refresh();
    },
    ...(tls.skipHostnameVerification && { checkServerIdentity: () => undefined }),
  };
}

const createContext = (texts: SecureContextOptions): SecureContext =>
  createSecureContext({ ...texts, ca: texts.ca ?? systemCas() });

/** @throws Error  of the file system */
function read({ caFile, certFile, keyFile }: ClientTls): SecureContextOptions {
  return {
    ...(caFile !== '' && { ca: readFileSync(caFile, 'utf8') }),
    ...(certFile !== '' && { cert: readFileSync(certFile, 'utf8') }),
    ...(keyFile !== '' && { key: readFileSync(keyFile, 'utf8') }),
  };
}

const isSame = (one: SecureContextOptions, other: SecureContextOptions): boolean =>
  one.ca === other.ca && one.cert === other.cert && one.key === other.key;
