import { X509Certificate } from 'node:crypto';
import { type Dirent, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { env } from 'node:process';

/** Paths at which a system may have CAs. */
interface Locations {
  /** Only the first one that can be read is used. */
  readonly files: readonly string[];
  /** All files in all of these are used. */
  readonly directories: readonly string[];
}

/**
 * The locations on Linux distributions, as in Go.
 *
 * @see https://go.dev/src/crypto/x509/root_linux.go
 */
const linux: Locations = {
  files: [
    '/etc/ssl/certs/ca-certificates.crt', // Debian, Ubuntu, Gentoo
    '/etc/pki/tls/certs/ca-bundle.crt', // Fedora, RHEL 6
    '/etc/ssl/ca-bundle.pem', // openSUSE
    '/etc/pki/tls/cacert.pem', // OpenELEC
    '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem', // CentOS, RHEL 7
    '/etc/ssl/cert.pem', // Alpine
  ],
  directories: ['/etc/ssl/certs', '/etc/pki/tls/certs'],
};

let known: { readonly cas: Buffer | undefined } | undefined;

/**
 * The CAs of the system's store, for connections without a CA of their own. Read when first asked for.
 *
 * @returns PEM; undefined: there is no store, and Node's built-in CAs apply
 * @throws Error  the store cannot be read, or has no certificate although the environment names it
 */
export function systemCas(): Buffer | undefined {
  known ??= { cas: readSystemCas(env) };
  return known.cas;
}

/**
 * Reads the store as Go does: `SSL_CERT_FILE` replaces the files, and `SSL_CERT_DIR`, separated by colons, the
 * directories. The CAs in `NODE_EXTRA_CA_CERTS` are added, as Node does for its built-in ones.
 *
 * @throws Error  see `systemCas`
 */
export function readSystemCas(from: NodeJS.ProcessEnv, locations: Locations = linux): Buffer | undefined {
  const { SSL_CERT_FILE: file, SSL_CERT_DIR: directory, NODE_EXTRA_CA_CERTS: extra } = from;
  const files = file ? [file] : locations.files;
  const directories = directory ? directory.split(':') : locations.directories;
  const problems: unknown[] = [];
  const texts = directories.flatMap((path) => filesIn(path, problems));
  for (const path of files) {
    const text = tryTo(() => readFileSync(path, 'latin1'), problems);
    if (text === undefined) continue;
    texts.push(text);
    break;
  }
  const certificates = new Set(texts.flatMap(certificatesIn));
  if (certificates.size === 0) {
    if (problems.length > 0) throw problems[0];
    if (!file && !directory) return undefined;
    throw new Error(`no CA certificate in ${[...files, ...directories].join(', ')}`);
  }
  const added = extra ? (tryTo(() => readFileSync(extra, 'latin1'), []) ?? '') : ''; // Node has warned of a missing file
  for (const certificate of certificatesIn(added)) certificates.add(certificate);
  return Buffer.from([...certificates].join('\n'));
}

/** The result; undefined: what is to be read does not exist, or another error was added to `problems`. */
function tryTo<T>(read: () => T, problems: unknown[]): T | undefined {
  try {
    return read();
  } catch (error) {
    const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT';
    if (!isMissing) problems.push(error);
    return undefined;
  }
}

/** The texts of all files; links to another file of the same directory are names of it by its hash. */
function filesIn(directory: string, problems: unknown[]): string[] {
  const read = (entry: Dirent): string => {
    const path = join(directory, entry.name);
    const isAlias = entry.isSymbolicLink() && !readlinkSync(path).includes('/');
    return isAlias ? '' : readFileSync(path, 'latin1');
  };
  const entries = tryTo(() => readdirSync(directory, { withFileTypes: true }), problems) ?? [];
  return entries.map((entry) => tryTo(() => read(entry), []) ?? '');
}

/** The certificates in a text, without those that OpenSSL cannot parse: one of them would make all others unusable. */
const certificatesIn = (text: string): readonly string[] =>
  (text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []).filter(isCertificate);

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).raw.length > 0;
  } catch {
    return false;
  }
}
