import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { openLink } from '../../test/helpers/namespaces.ts';
import { envoy, nftables } from '../../test/helpers/tools.ts';
import { isOpen, MAIN } from '../../test/helpers/weir.ts';
import { parseCount } from '../options.ts';
import { temporaryFolder, withCleanup } from '../processes/cleanup.ts';
import { readUsage } from '../processes/process-tree.ts';
import { table } from '../tables/table.ts';

export const usage = `Usage: npm run proof -- guard [options]

Lets addresses send requests far beyond their limit, through Envoy, in network namespaces with nftables, and measures

- the CPU time of Envoy and Weir for a refused request on an open connection, compared with the time that the kernel
  takes for a packet of an address that weir guard drops, with that of sending it
- the time from the first refused request of an address to the drop of its packets

  --requests N  refused requests to measure (5,000)
  --packets N   packets to measure, in batches of 1,000 (200,000)
  --clients N   addresses whose drop is timed, up to 100 (7)
  --help        prints this text
`;

const SERVER = '203.0.113.1';
const PORT = 10_000;
const TOKEN = 'a-token-of-the-proof';
const RULE = 'edge.remote_address';
const ADMITTED = 10;
const MAX_CLIENTS = 100;
const RULES = `
domain: edge
descriptors:
  - key: remote_address
    rate_limit: { unit: minute, requests_per_unit: ${ADMITTED} }
`;

const ENVOY = `
static_resources:
  listeners:
    - address: { socket_address: { address: 0.0.0.0, port_value: ${PORT} } }
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: edge
                use_remote_address: true
                http_filters:
                  - name: envoy.filters.http.ratelimit
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
                      domain: edge
                      failure_mode_deny: true
                      timeout: 10s
                      rate_limit_service:
                        transport_api_version: V3
                        grpc_service: { envoy_grpc: { cluster_name: weir } }
                  - name: envoy.filters.http.router
                    typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
                route_config:
                  virtual_hosts:
                    - name: all
                      domains: ["*"]
                      rate_limits: [{ actions: [{ remote_address: {} }] }]
                      routes: [{ match: { prefix: / }, route: { cluster: nowhere } }]
  clusters:
    - name: nowhere # no rate limits apply to routes without a cluster
      connect_timeout: 1s
    - name: weir
      typed_extension_protocol_options:
        envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
          "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
          explicit_http_config: { http2_protocol_options: {} }
      load_assignment:
        cluster_name: weir
        endpoints:
          - lb_endpoints:
              - endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: 8081 } } }
`;

/** Sends requests on one connection until there are enough refusals or no answer; prints the time of the first one. */
const CALLER = `
const { Agent, request } = require('node:http');
const [from, refusals] = process.argv.slice(1);
const agent = new Agent({ keepAlive: true, maxSockets: 1, localAddress: from });
const send = () => new Promise((resolve) => {
  const sent = request({ host: '${SERVER}', port: ${PORT}, agent, localAddress: from, timeout: 5_000 });
  sent.on('response', (response) => response.resume().on('end', () => resolve(response.statusCode)));
  sent.on('timeout', () => sent.destroy());
  sent.on('error', () => resolve(0));
  sent.end();
});
(async () => {
  let first = 0;
  for (let left = Number(refusals); left > 0; ) {
    const status = await send();
    if (status === 0) break;
    if (status !== 429) continue;
    first ||= Date.now();
    left--;
  }
  console.log(first);
  process.exit();
})();
`;

/** Sends TCP packets in batches, and prints the shortest mean time of a packet in microseconds. */
const SENDER = `
import socket, struct, sys, time
mac, source, packets = sys.argv[1], sys.argv[2], int(sys.argv[3])
data = b'x' * 200
tcp = struct.pack('!HHIIBBHHH', 40000, ${PORT}, 1, 1, 0x50, 0x10, 65535, 0, 0)
ip = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 40 + len(data), 1, 0, 64, 6, 0, socket.inet_aton(source), socket.inet_aton('${SERVER}'))
total = sum(struct.unpack('!10H', ip))
total = (total & 0xffff) + (total >> 16)
ip = ip[:10] + struct.pack('!H', ~(total + (total >> 16)) & 0xffff) + ip[12:]
frame = bytes.fromhex(mac.replace(':', '')) + b'\\x02\\0\\0\\0\\0\\1\\x08\\0' + ip + tcp + data
sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sender.bind(('veth1', 0))
best = 1e9
for batch in range(packets // 1000):
    begin = time.perf_counter()
    for _ in range(1000): sender.send(frame)
    best = min(best, time.perf_counter() - begin)
print(best * 1000)
`;

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      requests: { type: 'string', default: '5000' },
      packets: { type: 'string', default: '200000' },
      clients: { type: 'string', default: '7' },
    },
  });
  const requests = parseCount('--requests', values.requests);
  const packets = parseCount('--packets', values.packets);
  const clients = parseCount('--clients', values.clients, MAX_CLIENTS);
  await nftables();
  await withCleanup(async (onEnd) => {
    const folder = temporaryFolder('guard', onEnd);
    writeFileSync(join(folder, 'rules.yaml'), RULES);
    writeFileSync(join(folder, 'envoy.yaml'), ENVOY);
    const addresses = Array.from({ length: clients + 1 }, (_, at) => `203.0.113.${at + 10}`);
    const link = await openLink({ server: [`${SERVER}/24`], client: addresses.map((one) => `${one}/24`) });
    onEnd(() => link.stop());
    const env = { PATH: process.env.PATH, USE_STATSD: 'false', ADMIN_TOKEN: TOKEN };
    const weir = await link.server.start(process.execPath, [MAIN, 'serve', '--rules', join(folder, 'rules.yaml')], {
      env,
    });
    onEnd(() => weir.stop());
    await weir.waitFor(isOpen);
    const proxy = await link.server.start(await envoy(), ['--concurrency', '1', '-c', join(folder, 'envoy.yaml')]);
    onEnd(() => proxy.stop());
    await proxy.waitFor('starting main dispatch loop');
    const call = async (from: string, refusals: number): Promise<number> =>
      Number(await link.client.run(process.execPath, ['-e', CALLER, from, String(refusals)]));

    const [measured = '', ...timed] = addresses;
    await call(measured, 1_000); // compiles the code
    const cpuMs = () => readUsage(weir.pid).cpuMs + readUsage(proxy.pid).cpuMs;
    const beforeMs = cpuMs();
    await call(measured, requests);
    const requestMicros = (1_000 * (cpuMs() - beforeMs)) / requests;

    const flags = ['--rule', RULE, '--port', String(PORT), '--token', TOKEN, '--enforce', '--allow', 'none'];
    const guard = await link.server.start(process.execPath, [MAIN, 'guard', ...flags]);
    onEnd(() => guard.stop());
    const added = (address: string): number => {
      const line = guard
        .output()
        .split('\n')
        .find((one) => one.includes(`"event":"add","address":"${address}"`));
      return line === undefined ? 0 : Date.parse((JSON.parse(line) as { at: string }).at); // as weir guard prints it
    };
    await call(measured, Number.MAX_SAFE_INTEGER); // until it is dropped
    const [, mac = ''] = /link\/ether (\S+)/.exec(await link.server.run('ip', ['link', 'show', 'veth0'])) ?? [];
    const send = async (to: string): Promise<number> =>
      Number(await link.client.run('python3', ['-c', SENDER, to, measured, String(packets)]));
    const otherMicros = await send('02:00:00:00:00:99');
    const droppedMicros = await send(mac);
    const [, counted = '0'] =
      /@ipv4 counter packets (\d+)/.exec(await link.server.run('nft', ['list', 'ruleset'])) ?? [];
    if (Number(counted) < packets) throw new Error(`only ${counted} of ${packets} packets were dropped`);

    const delays: number[] = [];
    for (const address of timed) {
      const first = await call(address, Number.MAX_SAFE_INTEGER);
      await guard.waitFor(() => added(address) > 0);
      delays.push(added(address) - first);
    }
    const sorted = delays.toSorted((one, other) => one - other);
    const rows = [
      ['CPU time of Envoy and Weir for a refused request', `${requestMicros.toFixed(1)} µs`],
      ['a dropped packet, with the time of sending it', `${droppedMicros.toFixed(2)} µs`],
      ['a packet that is not for the machine, likewise', `${otherMicros.toFixed(2)} µs`],
      ['a refused request costs as much as', `${Math.floor(requestMicros / droppedMicros)} dropped packets`],
      ['from the first refused request to the drop, median', `${sorted[sorted.length >> 1]} ms`],
      ['from the first refused request to the drop, longest', `${sorted.at(-1)} ms`],
    ];
    console.log(
      `${timed.length} addresses with a limit of ${ADMITTED} a minute, dropped after 10 times as many refusals\n`,
    );
    console.log(table(['', 'measured'], 1, rows));
  });
}
