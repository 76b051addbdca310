import '../../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createAuthority, writeCertificate } from '../../helpers/certificates.ts';
import { MAIN, startWeir } from '../../helpers/weir.ts';

test('the debug port speaks TLS with its own certificate, and commands call it over https', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tls-'));
  const authority = createAuthority();
  const ca = join(folder, 'ca.crt');
  writeFileSync(ca, authority.cert);
  const { cert, key } = writeCertificate(folder, 'debug', authority.issue('localhost', '127.0.0.1'));
  const weir = await startWeir({ DEBUG_TLS_CERT: cert, DEBUG_TLS_KEY: key, USE_STATSD: 'false' });
  try {
    const target = `https://localhost:${weir.debugPort}`;
    const run = (env: Record<string, string>, ...to: readonly string[]) =>
      promisify(execFile)(process.execPath, [MAIN, 'explain', 'demo', 'user=alice', '--target', ...to], {
        env: { PATH: process.env.PATH, TMPDIR: process.env.TMPDIR, NO_COLOR: '1', ...env },
      });
    const failing = async (...to: readonly string[]): Promise<string> =>
      run({}, ...to).then(
        ({ stdout }) => stdout,
        ({ stderr }) => stderr,
      );
    const shown = 'demo.user: per-user, 5 per minute';
    expect((await run({ SSL_CERT_FILE: ca }, target)).stdout).toContain(shown);
    expect((await run({}, target, '--ca', ca)).stdout).toContain(shown);
    expect((await run({}, `localhost:${weir.debugPort}`, '--ca', ca)).stdout).toContain(shown);
    expect(await failing(target)).toMatch(`weir: ${target}: `);
    expect(await failing(target)).toMatch('; name a file with its CA by --ca or SSL_CERT_FILE');
    expect(await failing(target, '--ca', join(folder, 'none'))).toMatch('--ca cannot be read: ENOENT');
    expect(await failing(`localhost:${weir.debugPort}`)).toMatch('; if the port speaks TLS, put https:// before');
    expect(await failing(`https://localhost:${weir.httpPort}`)).toMatch(
      '; if the port does not speak TLS, put http://',
    );
    expect(await failing(`http://localhost:${weir.debugPort}`, '--ca', ca)).toBe(
      `weir: http://localhost:${weir.debugPort}: --ca requires https: remove it, or put https:// before the target\n`,
    );
    expect(await failing('https://[')).toBe(
      'weir: https://[: Invalid URL; expected the debug port of Weir: see --target and WEIR_TARGET\n',
    );
    await expect(fetch(`http://localhost:${weir.debugPort}/`)).rejects.toThrow('fetch failed');
  } finally {
    await weir.stop();
    rmSync(folder, { recursive: true });
  }
});
