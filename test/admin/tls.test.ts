import '../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createAuthority, writeCertificate } from '../helpers/certificates.ts';
import { MAIN, startWeir } from '../helpers/weir.ts';

test('the debug port speaks TLS with a certificate of its own, and commands ask it by https', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tls-'));
  const authority = createAuthority();
  const ca = join(folder, 'ca.crt');
  writeFileSync(ca, authority.cert);
  const { cert, key } = writeCertificate(folder, 'debug', authority.issue('localhost', '127.0.0.1'));
  const weir = await startWeir({ DEBUG_TLS_CERT: cert, DEBUG_TLS_KEY: key, USE_STATSD: 'false' });
  try {
    const target = `https://localhost:${weir.debugPort}`;
    const run = (env: Record<string, string>) =>
      promisify(execFile)(process.execPath, [MAIN, 'explain', 'demo', 'user=alice', '--target', target], {
        env: { PATH: process.env.PATH, NO_COLOR: '1', ...env },
      });
    expect((await run({ NODE_EXTRA_CA_CERTS: ca })).stdout).toContain('demo.user: per-user, 5 per minute');
    await expect(run({})).rejects.toMatchObject({ stderr: expect.stringContaining(`weir: ${target}: `) });
    await expect(fetch(`http://localhost:${weir.debugPort}/`)).rejects.toThrow('fetch failed');
  } finally {
    await weir.stop();
    rmSync(folder, { recursive: true });
  }
});
