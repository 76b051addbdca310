import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { GrpcServerOptions } from '../../../src/edge/grpc/grpc-server.ts';
import { type Certificates, openCertificates } from '../../../src/h2/listen/certificates.ts';
import { createAuthority, writeCertificate } from '../../helpers/certificates.ts';
import { type H2Server, startH2 } from '../../helpers/h2-server.ts';
import { h2spec } from '../../helpers/tools.ts';

/** Cases of h2spec 2.2.1, including the strict ones. */
const CASES = 146;
/** Timeout of a case; the default of two seconds may be too short on a busy machine. */
const TIMEOUT_SECONDS = 10;

let folder: string;
let server: H2Server | undefined;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'h2spec-'));
});
afterEach(async () => {
  await server?.close(0);
});

/** Runs all cases against a server, and reads the cases of the JUnit report. */
async function ask(tls: GrpcServerOptions['tls'], ...args: readonly string[]) {
  server = await startH2({ tls });
  const program = await h2spec();
  const report = join(folder, 'report.xml');
  const target = ['--host', '127.0.0.1', '--port', String(server.port), '--timeout', String(TIMEOUT_SECONDS)];
  await promisify(execFile)(program, [...target, '--strict', '--junit-report', report, ...args]).catch(() => {
    // it fails if a case does; the report names the case
  });
  const cases = readFileSync(report, 'utf8').match(/<testcase [^>]*>[\s\S]*?<\/testcase>/g) ?? [];
  return { count: cases.length, notPassed: cases.filter((one) => /<(error|failure|skipped)/.test(one)) };
}

test('every case of h2spec passes over plain text', async () => {
  expect(await ask(undefined)).toEqual({ count: CASES, notPassed: [] });
});

test('every case of h2spec passes over TLS', async () => {
  const files = writeCertificate(folder, 'server', createAuthority().issue('localhost', '127.0.0.1'));
  const certificates: Certificates = openCertificates({ ...files, clientCa: undefined }, Date.now, () => {});
  try {
    const answer = await ask({ certificates, clientName: undefined }, '--tls', '--insecure');
    expect(answer).toEqual({ count: CASES, notPassed: [] });
  } finally {
    certificates.close();
  }
});
