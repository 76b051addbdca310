import { execFile } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startRedis } from '../helpers/redis.ts';
import { eventually } from '../helpers/until.ts';
import { MAIN, startWeir, type Weir } from '../helpers/weir.ts';

/** Schedules in the built command line and service. */

const folder = mkdtempSync(join(tmpdir(), 'schedules-'));
const started: Weir[] = [];
afterEach(async () => {
  for (const weir of started.splice(0)) await weir.stop();
});

function file(name: string, content: string): string {
  writeFileSync(join(folder, name), content);
  return join(folder, name);
}

/** Runs the command line to its end. */
const weir = (...args: readonly string[]): Promise<{ readonly code: number; readonly output: string }> =>
  new Promise((resolve) => {
    const env = { PATH: process.env.PATH, TMPDIR: process.env.TMPDIR, NO_COLOR: '1' };
    execFile(process.execPath, [MAIN, ...args], { env }, (error, stdout, stderr) =>
      resolve({ code: error ? Number(error.code) : 0, output: `${stdout}${stderr}` }),
    );
  });

const NIGHTLY = `domain: demo
descriptors:
  - key: user
    rate_limit:
      unit: minute
      requests_per_unit: 2
      schedule:
        - active: { hours: 22:00-06:00, timezone: Europe/Berlin }
          requests_per_unit: 4
  - key: report
    rate_limit: { unit: day, requests_per_unit: 1, active: { until: 2026-12-01T00:00 } }
`;

test('weir explain --at shows which limits apply at a time, which do not, and when that changes', async () => {
  const rules = file('rules.yaml', NIGHTLY);
  const day = await weir('explain', 'demo', 'user=a', 'report=r', '--rules', rules, '--at', '2026-12-24T13:00Z');
  expect(day.output).toContain('demo.user: 2 per minute  ');
  expect(day.output).toContain('demo.user: 4 per minute (active hours: 22:00-06:00, timezone: Europe/Berlin)');
  expect(day.output).toContain('not now');
  expect(day.output).toContain('demo.user: other limits apply from 2026-12-24T21:00:00.000Z');
  expect(day.output).toContain('demo.report: no limit applies at this time');
  const night = await weir('explain', 'demo', 'user=a', '--rules', rules, '--at', '2026-12-24T22:00+01:00', '--json');
  const { descriptors } = JSON.parse(night.output);
  expect(descriptors).toMatchObject([
    {
      outcome: 'limited',
      changesAt: '2026-12-25T05:00:00.000Z',
      limits: [
        { limit: '2 per minute', inactive: true },
        { limit: '4 per minute', code: 'OK', after: { remaining: 3 } },
      ],
    },
  ]);
  expect((await weir('explain', 'demo', 'user=a', '--rules', rules, '--at', 'noon')).output).toContain('--at must be');
});

test('weir test runs a test at the time that it sets', async () => {
  file('rules.yaml', NIGHTLY);
  const tests = file(
    'tests.yaml',
    `rules: rules.yaml
tests:
  - { name: by day, domain: demo, descriptors: [user=a], at: 2026-12-24T13:00Z, expect: { remaining: 1 } }
  - { name: by night, domain: demo, descriptors: [user=a], at: 2026-12-24T22:00+01:00, expect: { remaining: 3 } }
  - { name: later, domain: demo, descriptors: [report=a], at: 2026-12-24T13:00, expect: { remaining: any, rules: demo.report } }
`,
  );
  const { code, output } = await weir('test', tests);
  expect(output).not.toContain('FAILED');
  expect(code).toBe(0);
});

test('weir replay answers each request with the limits of its time', async () => {
  const rules = file('rules.yaml', NIGHTLY);
  const lines = ['2026-12-24T20:58:00Z', '2026-12-24T21:01:00Z'].flatMap((text, minute) =>
    Array.from({ length: 5 }, (_, at) =>
      JSON.stringify({
        domain: 'demo',
        descriptors: [{ entries: [{ key: 'user', value: 'a' }] }],
        time: Date.parse(text) + at * (minute + 1),
      }),
    ),
  );
  const recording = file('requests.ndjson', `${lines.join('\n')}\n`);
  const { output } = await weir('replay', '--rules', rules, recording, '--json');
  expect(JSON.parse(output)).toMatchObject({ requests: 10, admitted: 2 + 4, refused: 3 + 1 });
});

test('weir diff names the rules whose counters start again', async () => {
  const before = file('before.yaml', NIGHTLY);
  const after = file(
    'after.yaml',
    NIGHTLY.replace('requests_per_unit: 2', 'requests_per_unit: 3').replace(
      'requests_per_unit: 1, active',
      'requests_per_unit: 1, on_change: reset, active',
    ),
  );
  const { output } = await weir('diff', before, after);
  expect(output).toMatch(/~ demo\.user\n.*\n.*counters are kept/);
  expect(output).toMatch(/~ demo\.report\n.*\n.*counters start anew/);
});

const iso = (ms: number): string => new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
const HOUR_MS = 3_600_000;

test.each([
  ['one process', false],
  ['two workers', true],
])('%s of the service follow a schedule, log effects of reloads on counters, and show both', async (_, isShared) => {
  const redis = isShared ? await startRedis() : undefined;
  const env: Record<string, string> = redis ? { WORKERS: '2', REDIS_URL: redis.url, USE_STATSD: 'false' } : {};
  const nowMs = Date.now();
  const campaign = `active: { from: "${iso(nowMs - HOUR_MS)}", until: "${iso(nowMs + HOUR_MS)}" }`;
  const rulesBy = (requests: number, more = ''): string => `domain: demo
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 5000, schedule: [{ ${campaign}, requests_per_unit: ${requests} }] }
  - { key: other, rate_limit: { unit: year, requests_per_unit: ${requests}${more} } }
`;
  const rules = file('live.yaml', rulesBy(1_000));
  const service = await startWeir({ LOG_LEVEL: 'info', ...env }, { args: ['--rules', rules] });
  started.push(service);
  const ask = async () => {
    const body = JSON.stringify({ domain: 'demo', descriptors: [{ entries: [{ key: 'user', value: 'a' }] }] });
    const response = await fetch(`http://127.0.0.1:${service.httpPort}/json`, { method: 'POST', body });
    const { statuses } = (await response.json()) as {
      statuses: { limitRemaining: number; durationUntilReset: string }[];
    };
    return {
      left: statuses[0]?.limitRemaining ?? 0,
      resetSeconds: Number.parseFloat(statuses[0]?.durationUntilReset ?? ''),
    };
  };
  const { left, resetSeconds } = await ask();
  expect(left).toBe(999);
  expect(resetSeconds).toBeLessThanOrEqual(3_600); // the limit increases afterwards
  file('live.yaml', rulesBy(2_000, ', on_change: reset'));
  await service.waitFor('counters begin anew: demo.other');
  expect(service.output()).toContain(
    'changed demo.user, demo.other; counters kept: demo.user; counters begin anew: demo.other',
  );
  const listed = await (await fetch(`http://127.0.0.1:${service.debugPort}/api/v1/rules`)).json();
  expect(listed).toMatchObject({
    reload: { counters_kept: ['demo.user'], counters_anew: ['demo.other'], text: expect.stringContaining('changed') },
    rules: [
      {
        path: 'demo.user',
        schedule: { now: [1], changes_at_ms: Math.floor((nowMs + HOUR_MS) / 1_000) * 1_000 },
        limits: [{ requests_per_unit: 5_000 }, { requests_per_unit: 2_000, active: expect.stringContaining('from: ') }],
      },
      { path: 'demo.other', limits: [{ on_change: 'reset' }] },
    ],
  });
  let asked = 1;
  await eventually(async () => {
    asked++;
    return (await ask()).left === 2_000 - asked; // the counter was kept; a worker may load the rules a moment later
  });
  await redis?.stop();
});
