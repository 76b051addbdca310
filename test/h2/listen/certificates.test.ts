import '../../helpers/realm.ts';
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CertificateFiles, type Certificates, openCertificates } from '../../../src/h2/listen/certificates.ts';
import { type Certificate, createAuthority, writeCertificate } from '../../helpers/certificates.ts';

const authority = createAuthority();
const one = authority.issue('localhost');
const other = authority.issue('localhost');

let folder: string;
let files: CertificateFiles;
let certificates: Certificates | undefined;
let problems: string[];
let changes: string[];

beforeEach(() => {
  jest.useFakeTimers();
  folder = mkdtempSync(join(tmpdir(), 'certificates-'));
  files = { ...writeCertificate(folder, 'server', one), clientCa: undefined };
  problems = [];
  changes = [];
});
afterEach(() => {
  certificates?.close();
  jest.useRealTimers();
});

function open(): void {
  certificates = openCertificates(files, Date.now, (problem) => problems.push(problem));
  certificates.onChange(({ cert }) => changes.push(cert));
}

/** Advances time until a change must be noticed. */
const notice = (): void => jest.advanceTimersByTime(5_000);

const overwrite = ({ cert, key }: Certificate): void => {
  writeFileSync(files.cert, cert);
  writeFileSync(files.key, key);
};

describe('certificates that are invalid at the start', () => {
  const write = (name: string, text: string): string => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  };

  test.each<[string, () => Partial<CertificateFiles>, RegExp]>([
    ['no certificate', () => ({ cert: '/nowhere.crt' }), /^the certificate \/nowhere.crt cannot be read: ENOENT/],
    ['no key', () => ({ key: '/nowhere.key' }), /^the private key \/nowhere.key cannot be read: ENOENT/],
    ['no authority', () => ({ clientCa: '/nowhere.ca' }), /^the client authority \/nowhere.ca cannot be read: ENOENT/],
    ['a folder', () => ({ cert: folder }), /^the certificate .* cannot be read: EISDIR/],
    ['an invalid certificate', () => ({ cert: write('odd.crt', 'odd') }), /odd.crt holds no PEM certificate: /],
    ['an invalid key', () => ({ key: write('odd.key', 'odd') }), /odd.key holds no unencrypted PEM private key: /],
    ['an invalid authority', () => ({ clientCa: write('odd.ca', 'odd') }), /odd.ca holds no PEM certificate: /],
    [
      'the key of another certificate',
      () => ({ key: write('other.key', other.key) }),
      /^the private key .*other.key does not match the certificate .*server.crt$/,
    ],
  ])('are refused with the name of the file: %s', (_, changed, message) => {
    files = { ...files, ...changed() };
    expect(open).toThrow(message);
  });
});

describe('changed certificates', () => {
  test.each<[string, () => void]>([
    ['in place', () => overwrite(other)],
    ['by renaming', () => void writeCertificate(folder, 'server', other)],
  ])('%s are loaded', (_, change) => {
    open();
    expect(certificates?.current()).toEqual({ ...one, ca: undefined });
    change();
    notice();
    expect(certificates?.current()).toEqual({ ...other, ca: undefined });
    expect([changes, problems]).toEqual([[other.cert], []]);
  });

  // Like a Secret mounted by Kubernetes: files are links into `..data`, itself a link to a folder that is replaced.
  test('are loaded when a symbolic link changes', () => {
    const version = (name: string, certificate: Certificate): void => {
      mkdirSync(join(folder, name));
      writeCertificate(join(folder, name), 'tls', certificate);
      symlinkSync(name, join(folder, '..data_tmp'));
      renameSync(join(folder, '..data_tmp'), join(folder, '..data'));
    };
    version('first', one);
    const link = (name: string): string => {
      symlinkSync(`..data/${name}`, join(folder, name));
      return join(folder, name);
    };
    files = { cert: link('tls.crt'), key: link('tls.key'), clientCa: undefined };
    open();
    version('second', other);
    rmSync(join(folder, 'first'), { recursive: true });
    notice();
    expect([changes, problems]).toEqual([[other.cert], []]);
  });

  test('are loaded when only the client CA changes', () => {
    files = { ...files, clientCa: join(folder, 'ca.crt') };
    writeFileSync(join(folder, 'ca.crt'), authority.cert);
    open();
    const { cert: ca } = createAuthority();
    writeFileSync(join(folder, 'ca.crt'), ca);
    notice();
    expect(certificates?.current()).toEqual({ ...one, ca });
  });

  test('are reported once when they are invalid, and the previous ones are kept', () => {
    open();
    writeFileSync(files.cert, other.cert);
    notice();
    notice();
    const message = `the private key ${files.key} does not match the certificate ${files.cert}; keeping the previous certificates`;
    expect([changes, problems]).toEqual([[], [message]]);
    expect(certificates?.current()).toEqual({ ...one, ca: undefined });

    rmSync(files.cert);
    notice();
    notice();
    const gone = expect.stringMatching(/server.crt cannot be read: ENOENT.*; keeping the previous certificates$/);
    expect([changes, problems]).toEqual([[], [message, gone]]);

    overwrite(other);
    notice();
    expect([changes, problems]).toEqual([[other.cert], [message, gone]]);
  });

  test('are loaded without a problem when one file changes after the other', () => {
    open();
    for (const certificate of [other, one, other]) {
      for (const [path, text] of [
        [files.cert, certificate.cert],
        [files.key, certificate.key],
      ] as const) {
        jest.advanceTimersByTime(1_000); // a poll at the worst moment: between the two
        writeFileSync(path, text);
      }
      notice();
    }
    expect([changes, problems]).toEqual([[other.cert, one.cert, other.cert], []]);
  });

  test('are ignored after close, and by listeners that have unsubscribed', () => {
    open();
    certificates?.onChange(() => changes.push('unwanted'))();
    overwrite(other);
    notice();
    certificates?.close();
    overwrite(one);
    notice();
    expect(changes).toEqual([other.cert]);
  });
});

describe('a certificate that has expired', () => {
  const SECOND_MS = 1_000;
  const expired = (): string => `the certificate ${files.cert} expired at `;

  test('is logged once, and a renewed one replaces it', () => {
    overwrite(authority.issueFor(10 * SECOND_MS, 'localhost'));
    open();
    jest.advanceTimersByTime(8 * SECOND_MS);
    expect(problems).toEqual([]);
    jest.advanceTimersByTime(60 * SECOND_MS);
    expect(problems).toEqual([expect.stringContaining(expired())]);
    overwrite(other);
    notice();
    expect(certificates?.current().cert).toBe(other.cert);
    expect(problems).toHaveLength(1);
  });

  test('is logged at the start and after a change', () => {
    overwrite(authority.issueExpired('localhost'));
    open();
    expect(problems).toEqual([expect.stringContaining(expired())]);
    overwrite(authority.issueExpired('localhost'));
    notice();
    expect(problems).toHaveLength(2);
  });
});
