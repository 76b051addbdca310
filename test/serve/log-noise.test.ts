import '../helpers/realm.ts';
import { execFileSync, spawn } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startAdministered } from '../helpers/administered.ts';
import { accepts, freePort, start } from '../helpers/process.ts';
import { startRedis } from '../helpers/redis.ts';
import { eventually } from '../helpers/until.ts';
import { MAIN } from '../helpers/weir.ts';

const RULES = 'domain: demo\ndescriptors:\n  - { key: user, rate_limit: { unit: year, requests_per_unit: 2 } }\n';

test('work that fails while Redis hangs is logged when that begins and when it ends, without stacks', async () => {
  const redis = await startRedis();
  const USAGE_DIR = join(mkdtempSync(join(tmpdir(), 'noise-')), 'usage');
  const weir = await startAdministered(RULES, { REDIS_URL: redis.url, WORKERS: '2', USAGE_DIR, USAGE_INTERVAL: '1s' });
  const { output } = weir.weir;
  const count = (text: string | RegExp): number => output().split(text).length - 1;
  try {
    await redis.pause();
    await eventually(() => count('collecting usage is failing') > 0, output, 15_000);
    await weir.call('GET', '/api/v1/overrides');
    await weir.call('GET', '/api/v1/audit');
    await redis.resume();
    await eventually(() => count('collecting usage works again') > 0, output, 15_000);
    expect(count('collecting usage is failing')).toBe(1);
    expect(count(/\n {4}at /)).toBe(0);
  } finally {
    await weir.stop();
    await redis.stop();
  }
});

test.each(['json', 'text'])(
  'callers are answered while the program that reads the log hangs, which gets all lines later, as %s',
  async (format) => {
    const folder = mkdtempSync(join(tmpdir(), 'hanging-'));
    const [pipe, rules] = [join(folder, 'pipe'), join(folder, 'rules.yaml')];
    execFileSync('mkfifo', [pipe]);
    writeFileSync(rules, RULES);
    const reader = openSync(pipe, 'r+'); // it reads nothing
    const [PORT, GRPC_PORT, DEBUG_PORT] = await Promise.all([freePort(), freePort(), freePort()]);
    const ports = { PORT: String(PORT), GRPC_PORT: String(GRPC_PORT), DEBUG_PORT: String(DEBUG_PORT) };
    const settings = {
      RULES_PATH: rules,
      DECISION_LOG: 'all',
      DECISION_LOG_MAX_PER_SECOND: '100000',
      LOG_FORMAT: format,
    };
    const hosts = { HOST: '127.0.0.1', GRPC_HOST: '127.0.0.1', DEBUG_HOST: '127.0.0.1' };
    const { PATH, HOME } = process.env;
    const weir = await start('sh', ['-c', `exec '${process.execPath}' '${MAIN}' serve 2> '${pipe}'`], {
      env: { PATH, HOME, ...hosts, ...ports, ...settings },
    });
    try {
      await weir.waitFor(() => accepts(PORT));
      const descriptors = [{ entries: [{ key: 'user', value: 'x'.repeat(1_000) }] }];
      const body = JSON.stringify({ domain: 'demo', descriptors });
      const ask = () =>
        fetch(`http://127.0.0.1:${PORT}/json`, { method: 'POST', body, signal: AbortSignal.timeout(10_000) });
      for (let sent = 0; sent < 200; sent++) expect([200, 429]).toContain((await ask()).status); // more than a pipe holds
      const cat = spawn('cat', { stdio: [reader, 'pipe', 'ignore'] });
      let log = '';
      cat.stdout?.on('data', (text) => (log += text));
      await eventually(
        () => log.split('"code":').length > 2 * 200,
        () => log.slice(-2_000),
      ).finally(() => cat.kill());
    } finally {
      await weir.stop();
      closeSync(reader);
    }
  },
);
