import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import type { Clock } from '../clock.ts';

/** How often the files are looked at. */
const LOOK_INTERVAL_MS = 1_000;

/** Where a server's certificate is, in PEM. */
export interface CertificateFiles {
  /** The certificate, followed by those that lead to its authority. */
  readonly cert: string;
  /** Its private key, not encrypted. */
  readonly key: string;
  /** The authorities whose certificates clients must have; undefined: they need none. */
  readonly clientCa: string | undefined;
}

/** What is in the files, under the names that Node's TLS has for it. */
export interface CertificateTexts {
  readonly cert: string;
  readonly key: string;
  readonly ca: string | undefined;
}

/** The certificates in force. */
export interface Certificates {
  current(): CertificateTexts;
  /** Calls back after each change, until the function that this returns is called. */
  onChange(listener: (changed: CertificateTexts) => void): () => void;
  /** Looks no more. */
  close(): void;
}

/** Certificate files are wrong; the message names the file, and says what is wrong with it. */
export class InvalidCertificates extends Error {
  override readonly name = 'InvalidCertificates';
}

/**
 * Reads certificates, and reads them again when the files change, however that is done: written in place, renamed, or behind
 * symbolic links that are turned. A change counts when two looks in a row have seen it, so that no new certificate is judged by
 * the key of the one before.
 *
 * @param onProblem  takes each change that is wrong, once: what was in force stays so; and once that the certificate in force has expired
 * @throws InvalidCertificates  when they are wrong to begin with
 */
export function openCertificates(
  files: CertificateFiles,
  clock: Clock,
  onProblem: (problem: string) => void,
): Certificates {
  const listeners = new Set<(changed: CertificateTexts) => void>();
  let found = read(files);
  let judged = found;
  let inForce = valid(files, found);
  let expiry = expiryOf(inForce);
  const checkFiles = (): void => {
    const before = found;
    found = read(files);
    if (isSame(found, judged) || !isSame(found, before)) return;
    judged = found;
    try {
      inForce = valid(files, found);
    } catch (error) {
      if (!(error instanceof InvalidCertificates)) throw error;
      onProblem(`${error.message}; what was in force before stays so`);
      return;
    }
    expiry = expiryOf(inForce);
    for (const listener of listeners) listener(inForce);
  };
  const checkExpiry = (): void => {
    if (!expiry || clock() < expiry.atMs) return;
    onProblem(`the certificate ${files.cert} expired at ${expiry.written}: clients refuse it`);
    expiry = undefined; // logged once
  };
  const poll = (): void => {
    checkFiles();
    checkExpiry();
  };
  checkExpiry();
  const timer = setInterval(poll, LOOK_INTERVAL_MS).unref();
  return {
    current: () => inForce,
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close: () => clearInterval(timer),
  };
}

/** What each file holds, or why it cannot be read. */
type Found = { readonly [K in keyof CertificateTexts]: CertificateTexts[K] | Unreadable };
interface Unreadable {
  readonly why: string;
}

function read({ cert, key, clientCa }: CertificateFiles): Found {
  const readOne = (path: string): string | Unreadable => {
    try {
      return readFileSync(path, 'utf8');
    } catch (error) {
      return { why: error instanceof Error ? error.message : String(error) };
    }
  };
  return { cert: readOne(cert), key: readOne(key), ca: clientCa === undefined ? undefined : readOne(clientCa) };
}

const isSame = (one: Found, other: Found): boolean => JSON.stringify(one) === JSON.stringify(other);

/** @throws InvalidCertificates */
function valid(files: CertificateFiles, found: Found): CertificateTexts {
  const cert = textOf(found.cert, `the certificate ${files.cert}`);
  const leaf = attempt(() => new X509Certificate(cert), `${files.cert} holds no certificate in PEM`);
  const key = textOf(found.key, `the private key ${files.key}`);
  const privateKey = attempt(
    () => createPrivateKey(key),
    `${files.key} holds no private key in PEM without a passphrase`,
  );
  if (!leaf.checkPrivateKey(privateKey))
    throw new InvalidCertificates(`the private key ${files.key} is not that of the certificate ${files.cert}`);
  const ca = found.ca === undefined ? undefined : textOf(found.ca, `the client authority ${files.clientCa}`);
  if (ca !== undefined) attempt(() => new X509Certificate(ca), `${files.clientCa} holds no certificate in PEM`);
  const texts = { cert, key, ca };
  attempt(() => createSecureContext(texts), `the certificate ${files.cert} cannot be used`);
  return texts;
}

/** When a certificate expires: `Nov 22 03:00:00 2026 GMT`. */
function expiryOf({ cert }: CertificateTexts): { readonly written: string; readonly atMs: number } | undefined {
  const { validTo: written } = new X509Certificate(cert);
  // biome-ignore lint/style/noRestrictedGlobals: it parses a text and reads no clock
  return { written, atMs: Date.parse(written) };
}

function textOf(found: string | Unreadable, what: string): string {
  if (typeof found === 'string') return found;
  throw new InvalidCertificates(`${what} cannot be read: ${found.why}`);
}

/** What OpenSSL makes of it, or its error after ours. */
function attempt<T>(make: () => T, otherwise: string): T {
  try {
    return make();
  } catch (error) {
    throw new InvalidCertificates(`${otherwise}: ${error instanceof Error ? error.message : error}`);
  }
}
