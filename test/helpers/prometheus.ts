import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { accepts, freePort, start } from './process.ts';
import { prometheus as prometheusBinary } from './tools.ts';

/** One series of a query's result, and its current value. */
export interface Sample {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: number;
}

/** A Prometheus server for a test. */
export interface Prometheus {
  readonly url: string;
  query(expr: string): Promise<readonly Sample[]>;
  /** The labels of the firing alerts. */
  firing(): Promise<readonly Readonly<Record<string, string>>[]>;
  /** Repeats `ask` until the condition holds or the time is over. @returns its last result */
  until<T>(ask: () => Promise<T>, condition: (seen: T) => boolean, withinMs: number): Promise<T>;
  stop(): Promise<void>;
}

export interface PrometheusOptions {
  /** host:port by `instance` label; all are in the job weir. */
  readonly targets: Readonly<Record<string, string>>;
  /** The text of a rule file. */
  readonly rules: string;
}

const POLL_MS = 500;

/** Starts Prometheus, which scrapes every two seconds, and evaluates rules every second. */
export async function startPrometheus({ targets, rules }: PrometheusOptions): Promise<Prometheus> {
  const folder = mkdtempSync(join(tmpdir(), 'prometheus-'));
  const port = await freePort();
  const config = {
    global: { scrape_interval: '2s', scrape_timeout: '2s', evaluation_interval: '1s' },
    rule_files: ['rules.yaml'],
    scrape_configs: [
      {
        job_name: 'weir',
        static_configs: Object.entries(targets).map(([instance, target]) => ({
          targets: [target],
          labels: { instance },
        })),
      },
    ],
  };
  writeFileSync(join(folder, 'prometheus.yaml'), JSON.stringify(config)); // JSON is YAML
  writeFileSync(join(folder, 'rules.yaml'), rules);
  const server = await start(await prometheusBinary(), [
    `--config.file=${join(folder, 'prometheus.yaml')}`,
    `--storage.tsdb.path=${join(folder, 'data')}`,
    `--web.listen-address=127.0.0.1:${port}`,
  ]);
  server.exited.then(() => rmSync(folder, { recursive: true, force: true }));
  // It listens while it still loads its storage, and answers 503 to queries until it is ready.
  await server.waitFor(async () => (await accepts(port)) && (await fetch(`http://127.0.0.1:${port}/-/ready`)).ok);

  async function api<T>(path: string): Promise<T> {
    const reply = (await (await fetch(`http://127.0.0.1:${port}/api/v1/${path}`)).json()) as
      | { readonly status: 'success'; readonly data: T } // Prometheus' HTTP API
      | { readonly status: 'error'; readonly error: string };
    if (reply.status === 'error') throw new Error(`${path}: ${reply.error}`);
    return reply.data;
  }
  return {
    url: `http://127.0.0.1:${port}`,
    async query(expr) {
      type Result = {
        readonly result: readonly { readonly metric: Sample['metric']; readonly value: [number, string] }[];
      };
      const { result } = await api<Result>(`query?query=${encodeURIComponent(expr)}`);
      return result.map(({ metric, value: [, value] }) => ({ metric, value: Number(value) }));
    },
    async firing() {
      type Alerts = { readonly alerts: readonly { readonly state: string; readonly labels: Sample['metric'] }[] };
      const { alerts } = await api<Alerts>('alerts');
      return alerts.filter(({ state }) => state === 'firing').map(({ labels }) => labels);
    },
    async until(ask, condition, withinMs) {
      const endMs = performance.now() + withinMs;
      for (;;) {
        const seen = await ask();
        if (condition(seen) || performance.now() > endMs) return seen;
        await sleep(POLL_MS);
      }
    },
    async stop() {
      await server.stop();
    },
  };
}
