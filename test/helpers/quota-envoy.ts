import { Agent, get } from 'node:http';
import type { RuleTree } from '../../src/engine/rules/match/tree.ts';
import { quotaConfiguration } from '../../src/parts/envoy/quota-configuration.ts';
import { httpListener } from '../../src/parts/envoy/whole-envoy.ts';
import { runEnvoy } from './envoy.ts';
import { freePort, type Running } from './process.ts';
import { rulesFrom } from './rules.ts';

/** Envoy with its rate limit quota filter. It answers a request that passes with 200 itself. */
export interface QuotaEnvoy extends Pick<Running, 'output' | 'kill' | 'stop'> {
  /** The port on 127.0.0.1 where it accepts requests. */
  readonly port: number;
  /** Sends one request. @returns whether it passed */
  passes(headers?: Readonly<Record<string, string>>): Promise<boolean>;
  /** Sends `count` requests one after the other. @returns how many passed */
  passed(count: number): Promise<number>;
  /** Reads a page of its admin interface. */
  admin(path: string): Promise<string>;
}

export interface QuotaEnvoyOptions {
  /** The name of the proxy. */
  readonly name?: string;
  readonly workers?: number;
  /** Prints another configuration for the rules, with the same listener and route. */
  readonly print?: (rules: RuleTree, domain: string, at: { readonly host: string; readonly port: number }) => string;
  /** Changes the printed configuration. */
  readonly edit?: (config: string) => string;
}

/** A listener that answers every request with 200. */
const upstream = (port: number): string =>
  httpListener({
    ...{ name: 'upstream', host: '127.0.0.1', port },
    action: 'direct_response: { status: 200, body: { inline_string: passed } }',
  });

/** Starts Envoy with the configuration that `weir envoy rlqs` prints for these rules. */
export async function startQuotaEnvoy(
  rules: string,
  weirPort: number,
  {
    name,
    workers = 1,
    edit = (config) => config,
    print = (tree, domain, at) => quotaConfiguration(tree, domain, { ...at, proxy: name }),
  }: QuotaEnvoyOptions = {},
): Promise<QuotaEnvoy> {
  const [port, adminPort, upstreamPort] = [await freePort(), await freePort(), await freePort()];
  const tree = rulesFrom(rules);
  const [domain = ''] = tree.domains.keys();
  const printed = print(tree, domain, { host: '127.0.0.1', port: weirPort })
    .replace('0.0.0.0, port_value: 10000', `127.0.0.1, port_value: ${port}`)
    .replace('port_value: 9901', `port_value: ${adminPort}`)
    .replace('port_value: 8000', `port_value: ${upstreamPort}`)
    .replace('  clusters:\n', `${upstream(upstreamPort)}  clusters:\n`);
  const envoy = await runEnvoy(edit(printed), [port], workers);
  const agent = new Agent({ keepAlive: true, maxSockets: 64 });
  const passes = (headers: Readonly<Record<string, string>> = {}): Promise<boolean> =>
    new Promise((resolve, reject) => {
      get({ host: '127.0.0.1', port, agent, headers }, (response) => {
        response.resume();
        response.once('end', () => resolve(response.statusCode === 200));
      }).once('error', reject);
    });
  return {
    port,
    passes,
    async passed(count) {
      let passed = 0;
      for (let at = 0; at < count; at++) if (await passes()) passed++;
      return passed;
    },
    admin: async (page) => (await fetch(`http://127.0.0.1:${adminPort}${page}`)).text(),
    output: envoy.output,
    kill: envoy.kill,
    async stop(signal) {
      agent.destroy();
      return envoy.stop(signal);
    },
  };
}
