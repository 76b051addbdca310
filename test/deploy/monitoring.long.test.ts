import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { load } from 'js-yaml';
import { createClient, type GrpcClient } from '../helpers/grpc-client.ts';
import { freePort } from '../helpers/process.ts';
import { type Prometheus, startPrometheus } from '../helpers/prometheus.ts';
import { type Redis, startRedis } from '../helpers/redis.ts';
import { promtool } from '../helpers/tools.ts';
import { until } from '../helpers/until.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const ALERTS = join(PROJECT, 'deploy/helm/weir/files/alerts.yaml');
const DASHBOARDS = join(PROJECT, 'deploy/helm/weir/files/dashboards');

/**
 * The wait for each alert. A scrape, an evaluation and the fault's own delay take a second or two on an idle machine.
 */
const DEADLINE_MS = 120_000;
const PAUSE_MS = 100;

interface AlertRule {
  readonly alert: string;
  readonly annotations: { readonly runbook_url: string };
}
const { groups } = load(readFileSync(ALERTS, 'utf8')) as {
  readonly groups: readonly { readonly rules: readonly AlertRule[] }[];
};
const alerts = groups.flatMap(({ rules }) => rules);

describe('the alert rules', () => {
  const check = async (...args: readonly string[]) => promisify(execFile)(await promtool(), args);

  test('are valid according to promtool', async () => {
    await check('check', 'rules', ALERTS);
  });

  test('fire after their time and not earlier, according to promtool', async () => {
    await check('test', 'rules', join(__dirname, 'alerts.promtool.yaml'));
  });

  test('are all covered by the tests for promtool', () => {
    const tested = readFileSync(join(__dirname, 'alerts.promtool.yaml'), 'utf8');
    for (const { alert } of alerts) expect(tested).toContain(`alertname: ${alert}\n`);
  });

  test('all have a section in the runbooks', () => {
    const page = readFileSync(join(PROJECT, 'docs/runbooks.md'), 'utf8');
    for (const { alert, annotations } of alerts) {
      expect(annotations.runbook_url).toBe(
        `https://github.com/weir-rls/weir/blob/main/docs/runbooks.md#${alert.toLowerCase()}`,
      );
      expect(page).toContain(`\n## ${alert}\n`);
    }
    expect(alerts.length).toBeGreaterThanOrEqual(8);
  });
});

const RULES = `
domain: demo
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1000000}}
  - {key: strict, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: trial, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: soft, rate_limit: {unit: hour, requests_per_unit: 1, soft: 1000000}}
  - {key: local, rate_limit: {unit: hour, requests_per_unit: 1000000, on_store_failure: local}}
`;
/** A leased rule, which needs Redis. */
const LEASED = `
  - {key: leased, rate_limit: {algorithm: token_bucket, unit: second, requests_per_unit: 100000, consistency: leased}}
`;
/** Rules that delay calls, so that many are in flight, and late. */
const HOLDING_RULES = `
domain: demo
descriptors:
  - {key: held, rate_limit: {algorithm: leaky_bucket, unit: second, requests_per_unit: 2, burst: 1, max_delay: 5s}}
  - {key: strict, rate_limit: {unit: hour, requests_per_unit: 1}}
`;
/** A limit that is soon nearly used up, so that the site borrows from the other one. */
const sharedRules = (requestsPerUnit: number): string => `
domain: demo
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: ${requestsPerUnit}, sites: {mode: escrow}}}
`;
const siteOf = (name: string, other: string, port: number, otherPort: number) => ({
  ...{ SITE: name, SITE_HOST: '127.0.0.1', SITE_PORT: String(port) },
  ...{ SITE_PEERS: `${other}=127.0.0.1:${otherPort}`, SHADOW_MODE: 'true' },
});
const statsdAt = (port: number) => ({
  ...{ USE_STATSD: 'true', STATSD_HOST: '127.0.0.1', STATSD_PORT: String(port), STATSD_PROTOCOL: 'tcp' },
});
/** Alerts about series of Prometheus itself, or about changes over many minutes; promtool alone tests them. */
const ofPrometheus = ['WeirAbsent', 'WeirDown', 'WeirRestarts', 'WeirStoreSlow'];
/** The other alerts, after a second. */
const SOON = readFileSync(ALERTS, 'utf8')
  .replaceAll(/^( +for: )\d+m$/gm, '$11s')
  .replaceAll(/(?<=alert: (?:WeirAbsent|WeirDown)\n.*\n +for: )1s/g, '1h');
const BROKEN_RULES = 'domain: demo\ndescriptors: [{key: user, rate_limit: {unit: fortnight}}]\n';

/** The fault of each instance, and the expected alerts. */
const expected: Readonly<Record<string, readonly string[]>> = {
  'waiting for a silent store': ['WeirAnswersDegraded', 'WeirStoreCircuitOpen', 'WeirStoreDown', 'WeirStoreFailures'],
  'never connected': ['WeirNotReady', 'WeirStoreDown'],
  overloaded: ['WeirAnswersLate', 'WeirConnectionsRefused', 'WeirUndecided'],
  misconfigured: [
    'WeirBackgroundFailing',
    'WeirCountersEvicted',
    'WeirFinding',
    'WeirRulesRejected',
    'WeirServiceErrors',
  ],
  'without its other site': ['WeirSiteUnreachable'],
  'beyond a limit that was lowered': ['WeirSiteErrorBeyondBound'],
  healthy: [], // last, after the alerts of the others
};
/** Alerts about rules and domains have the label of the job, not of an instance. */
const ofJob = ['WeirRuleRefusesMost', 'WeirUnknownDomain'];
/** An alert that may fire as well, since the machine may be slow. */
const OF_SLOW_MACHINE = 'WeirAnswersLate';

describe('a Prometheus that scrapes instances under load, each with a different fault', () => {
  const folder = mkdtempSync(join(tmpdir(), 'monitoring-'));
  const path = (name: string): string => join(folder, name);
  const stops: (() => unknown)[] = [];
  let isOver = false;
  let prometheus: Prometheus;

  async function instance(name: string, rules: string, env: Readonly<Record<string, string>> = {}): Promise<Weir> {
    writeFileSync(path(`${name}.yaml`), rules);
    const weir = await startWeir(env, { args: ['--rules', path(`${name}.yaml`)] });
    stops.push(() => weir.stop());
    return weir;
  }

  /** Calls continuously, one after another, to cause refusals and errors. */
  function keepCalling(weir: Weir, keys: readonly string[], domain = 'demo'): GrpcClient {
    const client = createClient(`127.0.0.1:${weir.grpcPort}`);
    stops.push(() => client.close());
    void (async () => {
      while (!isOver) {
        const descriptors = keys.map((key) => ({
          entries: [{ key, value: '1' }],
          limit: null,
          hits_addend: null,
          is_negative_hits: false,
        }));
        await client.send({ domain, descriptors, hits_addend: 1 }).catch(() => {});
        await sleep(PAUSE_MS);
      }
    })();
    return client;
  }

  /** The hits of an instance with one rule. */
  async function hitsOf({ debugPort }: Weir): Promise<number> {
    const page = await (await fetch(`http://127.0.0.1:${debugPort}/metrics`)).text();
    return Number(/^weir_hits_total\{.*\} (\d+)$/m.exec(page)?.[1] ?? 0);
  }

  beforeAll(async () => {
    const redis: Redis = await startRedis();
    const silent: Redis = await startRedis();
    stops.push(
      () => redis.stop(),
      () => silent.stop(),
    );
    const [southPort, northPort] = [await freePort(), await freePort()];
    const cache = { LOCAL_CACHE_SIZE_IN_BYTES: '100000', SHADOW_MODE: 'false' };
    const [healthy, waiting, never, overloaded, misconfigured, shadowed, alone, south, north] = await Promise.all([
      instance('healthy', RULES + LEASED, { REDIS_URL: redis.url, STORE_TIMEOUT: '30s', ...cache }),
      instance('waiting for a silent store', RULES, { REDIS_URL: silent.url, STORE_TIMEOUT: '100ms' }),
      instance('never connected', RULES, { REDIS_URL: `127.0.0.1:${await freePort()}` }),
      instance('overloaded', HOLDING_RULES, { MAX_IN_FLIGHT_CALLS: '5', GRPC_MAX_CONNECTIONS: '8' }),
      instance('misconfigured', RULES, { MEMORY_MAX_COUNTERS: '1', ...statsdAt(await freePort()) }),
      instance('shadowed', HOLDING_RULES, { SHADOW_MODE: 'true' }),
      instance('without its other site', sharedRules(4), siteOf('east', 'west', await freePort(), await freePort())),
      instance('south', sharedRules(4_000), siteOf('south', 'north', southPort, northPort)),
      instance('north', sharedRules(4_000), siteOf('north', 'south', northPort, southPort)),
    ]);
    const debugPort = ({ debugPort }: Weir): string => `127.0.0.1:${debugPort}`;
    prometheus = await startPrometheus({
      targets: {
        healthy: debugPort(healthy),
        'waiting for a silent store': debugPort(waiting),
        'never connected': debugPort(never),
        overloaded: debugPort(overloaded),
        misconfigured: debugPort(misconfigured),
        shadowed: debugPort(shadowed),
        'without its other site': debugPort(alone),
        'beyond a limit that was lowered': debugPort(south),
      },
      rules: SOON,
    });
    stops.push(() => prometheus.stop());

    for (const keys of [['user'], ['strict'], ['trial'], ['soft'], ['local'], ['leased']]) keepCalling(healthy, keys);
    keepCalling(waiting, ['user']);
    keepCalling(waiting, ['local']);
    keepCalling(misconfigured, ['user']);
    keepCalling(misconfigured, ['soft']);
    keepCalling(misconfigured, ['local']);
    keepCalling(misconfigured, ['user'], ''); // invalid
    keepCalling(misconfigured, []); // a finding
    keepCalling(shadowed, ['strict']);
    keepCalling(shadowed, ['user'], 'no-such-domain');
    for (const site of [alone, south, north]) keepCalling(site, ['user']);
    for (let caller = 0; caller < 12; caller++) keepCalling(overloaded, ['held']);
    for (const site of [south, north])
      await until('calls that the lower limit would have refused', async () => (await hitsOf(site)) >= 20);
    for (const site of ['south', 'north']) writeFileSync(path(`${site}.yaml`), sharedRules(4));
    silent.pause();
    writeFileSync(path('misconfigured.yaml'), BROKEN_RULES);
    const sockets: Socket[] = [];
    const crowding = setInterval(
      () => sockets.push(connect(overloaded.grpcPort, '127.0.0.1').on('error', () => {})),
      100,
    );
    stops.push(() => {
      clearInterval(crowding);
      for (const socket of sockets) socket.destroy();
    });
  });

  afterAll(async () => {
    isOver = true;
    for (const stop of stops.reverse()) await stop();
  }, DEADLINE_MS);

  const names = (firing: readonly Readonly<Record<string, string>>[], instance: string | undefined): string[] =>
    [...new Set(firing.filter((labels) => labels.instance === instance).map(({ alertname = '' }) => alertname))].sort();

  test.each(Object.entries(expected))(
    'an instance that is %s raises only its own alerts',
    async (name, wanted) => {
      const seen = await prometheus.until(
        async () => names(await prometheus.firing(), name),
        (firing) => wanted.every((alert) => firing.includes(alert)),
        DEADLINE_MS,
      );
      expect(seen.filter((alert) => wanted.includes(alert) || alert !== OF_SLOW_MACHINE)).toEqual(wanted);
    },
    2 * DEADLINE_MS,
  );

  test(
    'rules that refuse most, and domains without rules, are reported for the job',
    async () => {
      const seen = await prometheus.until(
        async () => names(await prometheus.firing(), undefined),
        (firing) => ofJob.every((alert) => firing.includes(alert)),
        DEADLINE_MS,
      );
      expect(seen).toEqual(ofJob);
    },
    2 * DEADLINE_MS,
  );

  test('every other alert is raised by one of these faults', () => {
    expect([...new Set([...Object.values(expected).flat(), ...ofJob, ...ofPrometheus])].sort()).toEqual(
      alerts.map(({ alert }) => alert).sort(),
    );
  });

  interface Panel {
    readonly title: string;
    readonly targets: readonly { readonly expr: string }[];
  }
  const queries = readdirSync(DASHBOARDS).flatMap((file) => {
    const { panels } = JSON.parse(readFileSync(join(DASHBOARDS, file), 'utf8')) as {
      readonly panels: readonly Panel[];
    }; // see dashboards.ts
    return panels.flatMap(({ title, targets }) => targets.map(({ expr }) => [file, title, expr] as const));
  });

  test.each(queries)(
    '%s: the query of "%s" has data',
    async (_file, _title, expr) => {
      const filled = expr
        .replaceAll(/\$(job|instance|domain|rule)\b/g, '.*')
        .replaceAll('$__rate_interval', '1m')
        .replaceAll('$__range', '5m');
      expect(filled).not.toContain('$');
      const samples = await prometheus.until(
        () => prometheus.query(filled),
        (found) => found.some(({ value }) => Number.isFinite(value)),
        DEADLINE_MS,
      );
      expect(samples).not.toEqual([]);
      expect(samples.some(({ value }) => Number.isFinite(value))).toBe(true);
    },
    2 * DEADLINE_MS,
  );

  test('every metric that a query or an alert names exists', async () => {
    const texts = [...queries.map(([, , expr]) => expr), readFileSync(ALERTS, 'utf8')];
    const named = new Set(texts.flatMap((text) => text.match(/\b(weir|process|nodejs)_\w+/g) ?? []));
    const found = new Set(
      (await prometheus.query('count by (__name__) ({__name__=~".+"})')).map(({ metric }) => metric.__name__),
    );
    expect([...named].filter((name) => !found.has(name))).toEqual([]);
  });
});
