import '../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { chmodSync, mkdtempSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { getuid } from 'node:process';
import { promisify } from 'node:util';
import { asLocal, MAIN, startWeir } from '../helpers/weir.ts';

const fileOf = (folder: string, port: number): string => join(folder, `weir-${getuid?.()}`, `${port}.token`);

test('without ADMIN_TOKEN, only clients that know the printed token see what callers sent', async () => {
  const weir = await startWeir({ USE_STATSD: 'false' });
  const top = async (headers: Readonly<Record<string, string>>) =>
    (await fetch(`http://127.0.0.1:${weir.debugPort}/api/v1/top`, { headers })).status;
  try {
    const printed = /console\/#token=(\S+)/.exec(weir.output())?.[1];
    expect(asLocal(weir)).toEqual({ authorization: `Bearer ${printed}` });
    expect(await top(asLocal(weir))).toBe(200);
    expect(await top({})).toBe(401);
    expect(await top({ authorization: 'Bearer guessed' })).toBe(401);
    expect(statSync(fileOf(tmpdir(), weir.debugPort)).mode & 0o077).toBe(0);
    expect(statSync(dirname(fileOf(tmpdir(), weir.debugPort))).mode & 0o077).toBe(0);
  } finally {
    await weir.stop();
  }
  expect(() => statSync(fileOf(tmpdir(), weir.debugPort))).toThrow('ENOENT');
});

test('commands of the same user need no token, and others say where it is', async () => {
  const weir = await startWeir({ USE_STATSD: 'false' });
  const run = (TMPDIR: string) =>
    promisify(execFile)(process.execPath, [MAIN, 'top', '--target', `127.0.0.1:${weir.debugPort}`], {
      env: { PATH: process.env.PATH, TMPDIR },
    });
  try {
    await run(tmpdir());
    await expect(run(mkdtempSync(join(tmpdir(), 'other-')))).rejects.toThrow(
      'or to that in the address of the console that the service printed at its start',
    );
    chmodSync(dirname(fileOf(tmpdir(), weir.debugPort)), 0o777); // another user may have put the file there
    await expect(run(tmpdir())).rejects.toThrow('needs a token');
  } finally {
    chmodSync(dirname(fileOf(tmpdir(), weir.debugPort)), 0o700);
    await weir.stop();
  }
});

test('with ADMIN_TOKEN, no token is made up, and one that was kept before does no harm', async () => {
  const earlier = await startWeir({ USE_STATSD: 'false' });
  const { debugPort } = earlier;
  await earlier.stop('SIGKILL');
  const weir = await startWeir({ USE_STATSD: 'false', ADMIN_TOKEN: 'secret', DEBUG_PORT: String(debugPort) });
  try {
    expect(weir.output()).toMatch(/console +http:\S+\/console\/$/m);
    const { stdout } = await promisify(execFile)(process.execPath, [
      MAIN,
      'status',
      '--target',
      `127.0.0.1:${debugPort}`,
    ]);
    expect(stdout).toContain('HEALTHY');
  } finally {
    await weir.stop();
  }
});
