/**
 * The services of compose.yaml without a container engine: those of Weir's image run in its root file system, with the
 * file's entrypoint, environment and mounts; Redis, Envoy and Prometheus run as binaries, with the mounted files.
 */
import './stay-alive.ts';
import { cpSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { report, startContainer } from '../../helpers/pod.ts';
import { accepts, type Running, start } from '../../helpers/process.ts';
import { envoy, prometheus, redisServer } from '../../helpers/tools.ts';
import { readYaml } from './manifest.ts';
import { untilHealthy } from './probe.ts';

interface Service {
  readonly entrypoint?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly volumes?: readonly string[];
}

const FILE = fileURLToPath(new URL('../../../deploy/compose/compose.yaml', import.meta.url));
const { services } = readYaml(FILE) as { readonly services: Readonly<Record<string, Service>> }; // a test loads it with compose-go
const { IMAGE_ROOT = '' } = process.env;

/** The mounts of a service: from paths in the container to paths on this machine. */
const mountsOf = (name: string): Record<string, string> =>
  Object.fromEntries(
    (services[name]?.volumes ?? []).map((volume) => {
      const [from = '', to = ''] = volume.split(':');
      return [to, resolve(dirname(FILE), from)];
    }),
  );

const run = (name: string): Promise<Running> => {
  const { entrypoint: command = ['/usr/bin/weir'], environment: env = {} } = services[name] ?? {};
  return startContainer({
    root: IMAGE_ROOT,
    command,
    env: { NODE_ENV: 'production', ...env },
    user: 65_532,
    mounts: mountsOf(name),
  });
};

const redis = await start(await redisServer(), ['--save', '', '--appendonly', 'no']);
await redis.waitFor(() => accepts(6379));
const weir = await run('weir');
await untilHealthy();
await run('upstream');
const proxy = await start(await envoy(), ['-c', join(dirname(FILE), 'envoy.yaml'), '--concurrency', '1']);
await proxy.waitFor(() => accepts(10_000));

const folder = mkdtempSync(join(tmpdir(), 'compose-'));
for (const [to, from] of Object.entries(mountsOf('prometheus')))
  cpSync(from, join(folder, to.slice('/etc/prometheus/'.length)));
const scraper = await start(await prometheus(), [
  `--config.file=${join(folder, 'prometheus.yml')}`,
  `--storage.tsdb.path=${join(folder, 'data')}`,
]);
await scraper.waitFor(() => accepts(9090));

const statuses: number[] = [];
for (let request = 0; request < 62; request++)
  statuses.push((await fetch('http://envoy:10000/', { headers: { 'x-user': 'ann' } })).status);

const load = await run('load');
async function query(expr: string): Promise<readonly unknown[]> {
  const reply = await fetch(`http://prometheus:9090/api/v1/query?query=${encodeURIComponent(expr)}`);
  return ((await reply.json()) as { readonly data: { readonly result: readonly unknown[] } }).data.result; // Prometheus' HTTP API
}
/** Scrapes are 5 s apart, and a rate needs two. */
const endMs = performance.now() + 120_000;
const EXPR = 'rate(weir_hits_total{job="weir", rule="user"}[1m]) > 0';
while ((await query(EXPR)).length === 0 && performance.now() < endMs) await sleep(200);
const rate = await query(EXPR);
const rules = (await (await fetch('http://prometheus:9090/api/v1/rules')).json()) as {
  readonly data: { readonly groups: readonly object[] };
};
const loadExit = await load.stop();
const exit = await weir.stop();
report({ statuses, rates: rate.length, ruleGroups: rules.data.groups.length, loadExit, exit });
