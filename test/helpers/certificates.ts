import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import forge, { type pki as Pki } from 'node-forge';

const { md, pki } = forge; // CommonJS: no named exports under Node's own module loader

/** A certificate and its key, in PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

/** A certificate authority for a test. */
export interface Authority extends Certificate {
  /** Issues a certificate for servers and clients with these DNS names and addresses; the first is its common name. */
  issue(...names: readonly string[]): Certificate;
  /** Issues one that expired an hour ago. */
  issueExpired(...names: readonly string[]): Certificate;
  /** Issues one that is valid for this long from now. */
  issueFor(validMs: number, ...names: readonly string[]): Certificate;
}

let serial = Date.now(); // must be unique within an authority

/** Creating an RSA key takes a second on a busy machine, so authorities share one, and certificates alternate. */
const keyPairs: Pki.rsa.KeyPair[] = [];
const keyPair = (at: number): Pki.rsa.KeyPair => {
  keyPairs[at] ??= pki.rsa.generateKeyPair(2048);
  return keyPairs[at];
};

/** Creates a new authority with each call; authorities do not trust each other's certificates. */
export function createAuthority(name = 'Test authority'): Authority {
  const keys = keyPair(0);
  const subject = [{ name: 'commonName', value: `${name} ${serial}` }];
  const cert = newCertificate(keys.publicKey, subject);
  cert.setIssuer(subject);
  cert.setExtensions([
    { name: 'basicConstraints', cA: true, critical: true },
    { name: 'keyUsage', keyCertSign: true, cRLSign: true },
  ]);
  cert.sign(keys.privateKey, sha256());
  const issueFor: Authority['issueFor'] = (validMs, ...names) => {
    const own = keyPair(1 + (serial % 2));
    const leaf = newCertificate(own.publicKey, [{ name: 'commonName', value: names[0] ?? 'unnamed' }], validMs);
    leaf.setIssuer(subject);
    leaf.setExtensions([
      { name: 'extKeyUsage', serverAuth: true, clientAuth: true },
      { name: 'subjectAltName', altNames: names.map(altName) },
    ]);
    leaf.sign(keys.privateKey, sha256());
    return { cert: pki.certificateToPem(leaf), key: pki.privateKeyToPem(own.privateKey) };
  };
  return {
    cert: pki.certificateToPem(cert),
    key: pki.privateKeyToPem(keys.privateKey),
    issue: (...names) => issueFor(DAY_MS, ...names),
    issueExpired: (...names) => issueFor(-HOUR_MS, ...names),
    issueFor,
  };
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Writes `<name>.crt` and `<name>.key` into a folder, each atomically. @returns their paths */
export function writeCertificate(folder: string, name: string, { cert, key }: Certificate) {
  mkdirSync(folder, { recursive: true });
  const write = (ending: string, text: string): string => {
    const path = join(folder, `${name}.${ending}`);
    writeFileSync(`${path}.new`, text);
    renameSync(`${path}.new`, path);
    return path;
  };
  return { cert: write('crt', cert), key: write('key', key) };
}

function newCertificate(publicKey: Pki.PublicKey, subject: Pki.CertificateField[], validMs = DAY_MS): Pki.Certificate {
  const certificate = pki.createCertificate();
  certificate.publicKey = publicKey;
  certificate.serialNumber = `1${(serial++).toString(16).padStart(15, '0')}`; // DER allows no leading zeros
  certificate.validity.notBefore = new Date(Date.now() - DAY_MS);
  certificate.validity.notAfter = new Date(Date.now() + validMs);
  certificate.setSubject(subject);
  return certificate;
}

const altName = (name: string) => (/^[\d.]+$|:/.test(name) ? { type: 7, ip: name } : { type: 2, value: name });

const sha256 = () => md.sha256.create();
