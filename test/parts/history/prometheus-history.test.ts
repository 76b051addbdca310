import '../../helpers/realm.ts';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PrometheusHistory } from '../../../src/parts/history/prometheus-history.ts';
import { send } from '../../helpers/console.ts';
import { type Prometheus, startPrometheus } from '../../helpers/prometheus.ts';
import { until } from '../../helpers/until.ts';
import { startWeir, type Weir } from '../../helpers/weir.ts';

/** A name that a query must escape. */
const KEY = 'a"} or vector(1) #\\';

let folder: string;
let weir: Weir;
let prometheus: Prometheus;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'history-'));
  const rules = join(folder, 'rules.yaml');
  writeFileSync(
    rules,
    `domain: demo\ndescriptors:\n  - {key: ${JSON.stringify(KEY)}, rate_limit: {unit: year, requests_per_unit: 5}}\n`,
  );
  weir = await startWeir({ USE_STATSD: 'false' }, { args: ['--rules', rules] });
  prometheus = await startPrometheus({ targets: { weir: `127.0.0.1:${weir.debugPort}` }, rules: '' });
});
afterAll(async () => {
  await prometheus.stop();
  await weir.stop();
  rmSync(folder, { recursive: true });
});

/** The next step of the shortest range has begun. */
const inNextStep = (): number => Date.now() + 30_000;

const historyWith = (labels: readonly (readonly [string, string])[]): PrometheusHistory =>
  new PrometheusHistory({ url: prometheus.url, labels, clock: inNextStep });

test('the history of the service and of a rule is read from Prometheus', async () => {
  const history = historyWith([['job', 'weir']]);
  const refused = (series: Readonly<Record<string, readonly number[]>>): number => series.refused?.at(-1) ?? 0;
  await until('refusals are in Prometheus', async () => {
    await send(weir, 'demo', [[KEY, 'x']]);
    const { series } = await history.ofRule('demo', KEY, '1h');
    return refused(series) > 0;
  });
  const { beginsAtMs, series } = await history.ofService('1h');
  expect(refused(series)).toBeGreaterThan(0);
  expect(series.degraded?.at(-1)).toBe(0);
  expect(series.p99Ms ?? []).toEqual(expect.any(Array));
  expect(Date.now() - beginsAtMs).toBeLessThan(3_600_000);
});

test('a rule without history has none, and neither has a service with other labels', async () => {
  const other = await historyWith([['job', 'weir']]).ofRule('demo', 'user', '24h');
  expect(other.series).toEqual({});
  expect((await historyWith([['job', 'x"y']]).ofService('1h')).beginsAtMs).toBeGreaterThan(Date.now());
});

test('if Prometheus does not answer, plots have what the process remembers, and say why', async () => {
  const alone = await startWeir({ PROMETHEUS_URL: 'http://127.0.0.1:1', USE_STATSD: 'false' });
  try {
    const read = async (range: string) => {
      const response = await fetch(`http://127.0.0.1:${alone.debugPort}/api/v1/series?range=${range}`);
      return { status: response.status, body: JSON.parse(await response.text()) };
    };
    expect(await read('1h')).toMatchObject({
      status: 200,
      body: { source: 'memory', problem: expect.stringMatching(/^Prometheus cannot be read: /) },
    });
    expect(await read('10m')).toMatchObject({ body: { source: 'memory' } });
    expect(await read('7d')).toMatchObject({ status: 503 });
  } finally {
    await alone.stop();
  }
});
