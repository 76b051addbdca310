import '../helpers/realm.ts';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Status } from '../../src/parts/status/answers.ts';
import { type Administered, startAdministered } from '../helpers/administered.ts';
import { freePort } from '../helpers/process.ts';
import { startRedis } from '../helpers/redis.ts';
import { smallDisk } from '../helpers/small-disk.ts';
import { eventually } from '../helpers/until.ts';
import { MAIN } from '../helpers/weir.ts';

const RULES = 'domain: demo\ndescriptors:\n  - { key: user, rate_limit: { unit: year, requests_per_unit: 2 } }\n';

const statusOf = async ({ call }: Administered): Promise<Status> => (await call('GET', '/api/v1/status')).body;

const reasonsOf = ({ background }: Status) =>
  Object.fromEntries(background.map(({ name, reason }) => [name, reason ?? 'works']));

async function metricsOf({ weir }: Administered): Promise<string> {
  return (await fetch(`http://127.0.0.1:${weir.debugPort}/metrics`)).text();
}

test('an audit log on a full disk is a finding, a metric and a line of weir status', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'background-'));
  const service = await startAdministered(RULES, {
    ...{ AUDIT_LOG: '/dev/full', RECORD_TO: join(folder, 'recordings'), USAGE_DIR: join(folder, 'usage') },
    ...{ USE_STATSD: 'true', STATSD_HOST: '127.0.0.1', STATSD_PORT: '1', STATSD_PROTOCOL: 'tcp' },
  });
  try {
    const change = { until: '2099-01-01T00:00:00Z', reason: 'test' };
    expect((await service.call('PUT', '/api/v1/recording', change)).status).toBe(503);
    await eventually(async () => {
      const { statistics, recording } = reasonsOf(await statusOf(service)); // the workers', who report now and then
      return statistics?.includes('ECONNREFUSED') === true && recording !== undefined;
    });
    const status = await statusOf(service);
    const works = Object.fromEntries(
      ['usage', 'usage_retention', 'usage_rows', 'recording', 'overrides', 'candidate', 'findings'].map((name) => [
        name,
        'works',
      ]),
    );
    expect(reasonsOf(status)).toEqual({
      ...works,
      audit_log: 'ENOSPC: no space left on device, write',
      statistics: expect.stringContaining('ECONNREFUSED'),
    });
    expect(status.health).toBe('degraded');
    expect(status.findings.map(({ problem }) => problem).sort()).toEqual([
      expect.stringMatching(/^sending statistics to 127\.0\.0\.1:1 has been failing since .* because .*ECONNREFUSED/),
      expect.stringMatching(/^writing the audit log has been failing since .* because ENOSPC/),
    ]);
    const metrics = await metricsOf(service);
    expect(metrics).toContain('weir_background_failing{function="audit_log"} 1\n');
    expect(metrics).toContain('weir_background_failing{function="usage"} 0\n');
    const args = [MAIN, 'status', '--target', `127.0.0.1:${service.weir.debugPort}`];
    const shown = await promisify(execFile)(process.execPath, args).catch((failed: { stdout: string }) => failed);
    expect(shown.stdout).toMatch(/^background .*recording.* working; .*audit_log.* FAILING$/m);
  } finally {
    await service.stop();
    rmSync(folder, { recursive: true });
  }
});

test('a recording and usage on a full disk are failing, and go on by themselves once there is room', async () => {
  const disk = smallDisk();
  if (!disk) return;
  const redis = await startRedis();
  const service = await startAdministered(RULES, {
    ...{
      REDIS_URL: redis.url,
      RECORD_TO: disk.folder,
      USAGE_DIR: join(disk.folder, 'usage'),
      USAGE_INTERVAL: '100ms',
      WORKERS: '2',
    },
  }).catch((error) => {
    disk.remove();
    throw error;
  });
  const ask = () => service.ask({ domain: 'demo', descriptors: [{ entries: [{ key: 'user', value: 'a' }] }] });
  const untilReasons = (recording: unknown, usage: unknown) =>
    eventually(
      async () => {
        await ask();
        const found = reasonsOf(await statusOf(service));
        return [
          [recording, found.recording],
          [usage, found.usage],
        ].every(([wanted, reason]) => String(reason).includes(String(wanted)));
      },
      undefined,
      30_000,
    );
  try {
    disk.fill();
    await untilReasons('ENOSPC', 'ENOSPC');
    expect((await service.call('GET', '/api/v1/recording')).body).toMatchObject({
      failing: expect.stringContaining('ENOSPC'),
    });
    expect(await metricsOf(service)).toContain('weir_background_failing{function="recording"} 1\n');
    disk.free();
    await untilReasons('works', 'works');
    const recordings = readdirSync(disk.folder).filter((name) => name.endsWith('.gz'));
    expect(recordings.map((name) => statSync(join(disk.folder, name)).size)).not.toContain(0);
    expect((await service.call('GET', '/api/v1/recording')).body).not.toHaveProperty('failing');
  } finally {
    await service.stop();
    await redis.stop();
    disk.remove();
  }
});

test.each(['text', 'json'])('a log as %s that cannot be written ends no process', async (LOG_FORMAT) => {
  const folder = mkdtempSync(join(tmpdir(), 'log-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  const ports = { PORT: String(await freePort()), GRPC_PORT: String(await freePort()) };
  const full = openSync('/dev/full', 'w');
  const weir = spawn(process.execPath, [MAIN, 'serve', '--rules', join(folder, 'rules.yaml')], {
    stdio: ['ignore', 'ignore', full],
    env: {
      ...{ ...ports, DEBUG_PORT: String(await freePort()), HOST: '127.0.0.1', GRPC_HOST: '127.0.0.1' },
      ...{ DEBUG_HOST: '127.0.0.1', LOG_FORMAT, LOG_LEVEL: 'debug', USE_STATSD: 'false' },
    },
  });
  const exited = once(weir, 'exit');
  try {
    const body = JSON.stringify({ domain: 'demo', descriptors: [{ entries: [{ key: 'user', value: 'a' }] }] });
    const ask = () => fetch(`http://127.0.0.1:${ports.PORT}/json`, { method: 'POST', body });
    await eventually(async () => (await ask().catch(() => undefined))?.status === 200, undefined, 30_000);
    for (let at = 0; at < 3; at++) expect([200, 429]).toContain((await ask()).status);
    expect(weir.exitCode).toBeNull();
  } finally {
    weir.kill();
    await exited;
    closeSync(full);
    rmSync(folder, { recursive: true });
  }
});
