import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startH2 } from '../../helpers/h2-server.ts';
import { h2spec } from '../../helpers/tools.ts';

/** Cases of h2spec 2.2.1, including the strict ones. */
const CASES = 146;
/** Timeout of a case; the default of two seconds may be too short on a busy machine. */
const TIMEOUT_SECONDS = 10;

test('every case of h2spec passes', async () => {
  const server = await startH2();
  const report = join(mkdtempSync(join(tmpdir(), 'h2spec-')), 'report.xml');
  const target = ['--host', '127.0.0.1', '--port', String(server.port), '--timeout', String(TIMEOUT_SECONDS)];
  await promisify(execFile)(await h2spec(), [...target, '--strict', '--junit-report', report]).catch(() => {
    // it fails if a case does; the report names the case
  });
  await server.close(0);
  const cases = readFileSync(report, 'utf8').match(/<testcase [^>]*>[\s\S]*?<\/testcase>/g) ?? [];
  const notPassed = cases.filter((one) => /<(error|failure|skipped)/.test(one));
  expect({ count: cases.length, notPassed }).toEqual({ count: CASES, notPassed: [] });
});
