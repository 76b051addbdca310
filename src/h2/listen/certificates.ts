import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import type { Clock } from '../../base/clock.ts';
import { firstUsable, keepUsable } from './usable-files.ts';

const POLL_INTERVAL_MS = 1_000;

/** Paths of a server's PEM files. */
export interface CertificateFiles {
  /** The certificate chain, leaf first. */
  readonly cert: string;
  /** The private key, unencrypted. */
  readonly key: string;
  /** CA certificates that client certificates must chain to; undefined if clients need no certificate. */
  readonly clientCa: string | undefined;
}

/** The contents of the files, under the names of Node's TLS options. */
interface CertificateTexts {
  readonly cert: string;
  readonly key: string;
  readonly ca: string | undefined;
}

/** The current certificates. */
export type Certificates = ReturnType<typeof openCertificates>;

/** An unusable certificate file; the message names the file and the reason. */
class InvalidCertificates extends Error {
  override readonly name = 'InvalidCertificates';
}

/**
 * Reads certificates and reloads them when the files change, whether they are written in place, renamed, or replaced
 * behind a symbolic link. A change must be seen by two polls in a row, so that a new certificate is not checked against
 * the old key.
 *
 * A worker that starts while they are invalid begins with the supervisor's.
 *
 * @param onProblem  called once for each invalid change, after which the current certificates are kept, and once
 * when the current certificate expires
 * @throws InvalidCertificates if they are invalid at the start
 */
export function openCertificates(files: CertificateFiles, clock: Clock, onProblem: (problem: string) => void) {
  const listeners = new Set<(changed: CertificateTexts) => void>();
  let found = read(files);
  let checked = found;
  /** @throws error  unless it is InvalidCertificates */
  const reportInvalid = (error: unknown): void => {
    if (!(error instanceof InvalidCertificates)) throw error;
    onProblem(`${error.message}; keeping the previous certificates`);
  };
  let inForce = firstUsable(
    { ...files },
    (passed: CertificateTexts | undefined) => passed ?? valid(files, found),
    reportInvalid,
  );
  keepUsable({ ...files }, { ...inForce });
  let expiry = parseExpiry(inForce);
  const checkFiles = (): void => {
    const before = found;
    found = read(files);
    if (isSame(found, checked) || !isSame(found, before)) return;
    checked = found;
    try {
      inForce = valid(files, found);
    } catch (error) {
      return reportInvalid(error);
    }
    keepUsable({ ...files }, { ...inForce });
    expiry = parseExpiry(inForce);
    for (const listener of listeners) listener(inForce);
  };
  const checkExpiry = (): void => {
    if (!expiry || clock() < expiry.atMs) return;
    onProblem(`the certificate ${files.cert} expired at ${expiry.written}; clients refuse it: replace the file`);
    expiry = undefined; // logged once
  };
  const poll = (): void => {
    checkFiles();
    checkExpiry();
  };
  checkExpiry();
  const timer = setInterval(poll, POLL_INTERVAL_MS).unref();
  return {
    current: (): CertificateTexts => inForce,
    /** Calls the listener after each change. @returns a function that unsubscribes it */
    onChange(listener: (changed: CertificateTexts) => void): () => void {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    /** Stops polling. */
    close: (): void => clearInterval(timer),
  };
}

/** The contents of each file, or the reason why it cannot be read. */
type Found = { readonly [K in keyof CertificateTexts]: CertificateTexts[K] | Unreadable };
interface Unreadable {
  readonly reason: string;
}

function read({ cert, key, clientCa }: CertificateFiles): Found {
  const readOne = (path: string): string | Unreadable => {
    try {
      return readFileSync(path, 'utf8');
    } catch (error) {
      return { reason: error instanceof Error ? error.message : String(error) };
    }
  };
  return { cert: readOne(cert), key: readOne(key), ca: clientCa === undefined ? undefined : readOne(clientCa) };
}

const isSame = (one: Found, other: Found): boolean => JSON.stringify(one) === JSON.stringify(other);

/** @throws InvalidCertificates */
function valid(files: CertificateFiles, found: Found): CertificateTexts {
  const cert = requireText(found.cert, `the certificate ${files.cert}`);
  const leaf = attempt(() => new X509Certificate(cert), `${files.cert} holds no PEM certificate`);
  const key = requireText(found.key, `the private key ${files.key}`);
  const privateKey = attempt(() => createPrivateKey(key), `${files.key} holds no unencrypted PEM private key`);
  if (!leaf.checkPrivateKey(privateKey))
    throw new InvalidCertificates(`the private key ${files.key} does not match the certificate ${files.cert}`);
  const ca = found.ca === undefined ? undefined : requireText(found.ca, `the client authority ${files.clientCa}`);
  if (ca !== undefined) attempt(() => new X509Certificate(ca), `${files.clientCa} holds no PEM certificate`);
  const texts = { cert, key, ca };
  attempt(() => createSecureContext(texts), `the certificate ${files.cert} cannot be used`);
  return texts;
}

/** The expiry of a certificate, written as in `Nov 22 03:00:00 2026 GMT`. */
function parseExpiry({ cert }: CertificateTexts): { readonly written: string; readonly atMs: number } | undefined {
  const { validTo: written } = new X509Certificate(cert);
  // biome-ignore lint/style/noRestrictedGlobals: it parses a text and reads no clock
  return { written, atMs: Date.parse(written) };
}

function requireText(found: string | Unreadable, what: string): string {
  if (typeof found === 'string') return found;
  throw new InvalidCertificates(`${what} cannot be read: ${found.reason}`);
}

/** Calls `make`; an OpenSSL error is appended to `problem`. */
function attempt<T>(make: () => T, problem: string): T {
  try {
    return make();
  } catch (error) {
    throw new InvalidCertificates(`${problem}: ${error instanceof Error ? error.message : error}`);
  }
}
