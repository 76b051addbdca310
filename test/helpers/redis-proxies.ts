import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { runEnvoy } from './envoy.ts';
import { accepts, freePort, type Running, start } from './process.ts';
import { haproxy, twemproxy } from './tools.ts';

/** A proxy of Redis on 127.0.0.1. */
export interface RedisProxy {
  readonly port: number;
  stop(): Promise<unknown>;
}

type Servers = readonly { readonly port: number }[];

/** Starts Envoy's redis_proxy, which divides keys among the servers. */
export async function startEnvoyRedisProxy(servers: Servers): Promise<RedisProxy> {
  const port = await freePort();
  const endpoint = (at: number) => ({ address: { socket_address: { address: '127.0.0.1', port_value: at } } });
  const filter = {
    name: 'envoy.filters.network.redis_proxy',
    typed_config: {
      '@type': 'type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3.RedisProxy',
      stat_prefix: 'redis',
      settings: { op_timeout: '5s' },
      prefix_routes: { catch_all_route: { cluster: 'redis' } },
    },
  };
  const cluster = {
    name: 'redis',
    type: 'STATIC',
    lb_policy: 'RING_HASH',
    load_assignment: {
      cluster_name: 'redis',
      endpoints: [{ lb_endpoints: servers.map((server) => ({ endpoint: endpoint(server.port) })) }],
    },
  };
  const config = {
    static_resources: {
      listeners: [{ ...endpoint(port), filter_chains: [{ filters: [filter] }] }],
      clusters: [cluster],
    },
  };
  const envoy = await runEnvoy(JSON.stringify(config), [port]);
  return { port, stop: envoy.stop };
}

/** Starts twemproxy, which divides keys among the servers. */
export async function startTwemproxy(servers: Servers, protocol: 'redis' | 'memcached' = 'redis'): Promise<RedisProxy> {
  const port = await freePort();
  const lines = [
    'pool:',
    `  listen: 127.0.0.1:${port}`,
    '  hash: fnv1a_64',
    '  distribution: ketama',
    `  redis: ${protocol === 'redis'}`,
    '  servers:',
    ...servers.map((server) => `   - 127.0.0.1:${server.port}:1`),
  ];
  return withConfig(port, `${lines.join('\n')}\n`, async (path) =>
    start(await twemproxy(), ['-c', path, '-o', `${path}.log`, '-s', String(await freePort()), '-a', '127.0.0.1'], {
      name: 'twemproxy',
    }),
  );
}

/** Starts HAProxy, which passes connections on to the server; of several servers, to the one that is the master. */
export async function startHaproxy(...servers: Servers): Promise<RedisProxy> {
  const isMaster = [
    'option tcp-check',
    String.raw`tcp-check send info\ replication\r\n`,
    'tcp-check expect string role:master',
  ];
  const port = await freePort();
  const lines = [
    'defaults',
    ' mode tcp',
    ' timeout connect 5s',
    ' timeout client 60s',
    ' timeout server 60s',
    `listen redis`,
    ` bind 127.0.0.1:${port}`,
    ...(servers.length > 1 ? isMaster.map((line) => ` ${line}`) : []),
    ...servers.map(
      ({ port: to }) => ` server redis-${to} 127.0.0.1:${to}${servers.length > 1 ? ' check inter 1s' : ''}`,
    ),
  ];
  return withConfig(port, `${lines.join('\n')}\n`, async (path) => {
    const program = await haproxy();
    const libraries = join(dirname(dirname(program)), 'lib/x86_64-linux-gnu');
    return start(program, ['-db', '-f', path], { name: 'haproxy', env: { LD_LIBRARY_PATH: libraries } });
  });
}

async function withConfig(
  port: number,
  config: string,
  launch: (path: string) => Promise<Running>,
): Promise<RedisProxy> {
  const folder = await mkdtemp(join(tmpdir(), 'proxy-'));
  const path = join(folder, 'config');
  await writeFile(path, config);
  const proxy = await launch(path);
  proxy.exited.then(() => rm(folder, { recursive: true }));
  await proxy.waitFor(() => accepts(port));
  return { port, stop: proxy.stop };
}
