import { execFileSync } from 'node:child_process';
import { createWriteStream, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { parseArgs } from 'node:util';
import { createGzip } from 'node:zlib';
import { numbers } from '../../test/helpers/numbers.ts';
import { MAIN } from '../../test/helpers/weir.ts';
import { parseCount } from '../options.ts';
import { temporaryFolder, withCleanup } from '../processes/cleanup.ts';
import { tableHead, tableRow } from '../tables/table.ts';

const START_MS = 1_700_000_000_000;
const RULES = `
domain: demo
descriptors: [{ key: user, rate_limit: { unit: minute, requests_per_unit: 10 } }]
`;

const MAPPING = `
domain: demo
rate_limits:
  - actions: [{ request_headers: { header_name: x-user, descriptor_key: user } }]
`;

/** Makes Node report its resource usage on exit. */
const REPORT_USAGE = `data:text/javascript,process.on('exit',()=>process._rawDebug(JSON.stringify(process.resourceUsage())))`;

export const usage = `Usage: npm run proof -- replay [options]

Measures the CPU time that \`weir replay\` takes for each request of a compressed recording, and of a compressed access
log of Envoy Gateway, and its peak memory. Takes about two minutes.

  --requests N  in each file (2000000)
  --users N     distinct keys of these requests, most used a few times (100000)
  --help        this text
`;

const options = {
  requests: { type: 'string', default: '2000000' },
  users: { type: 'string', default: '100000' },
} as const;

type LineOf = (user: string, timeMs: number) => object;

const recorded: LineOf = (user, time) => ({
  domain: 'demo',
  descriptors: [{ entries: [{ key: 'user', value: user }] }],
  time,
  answer: { code: 'OK', descriptors: [{ code: 'OK', remaining: 9, rule: 'demo.user' }] },
});

/** A line with the fields that Envoy Gateway logs by default, and a header. */
const logged: LineOf = (user, timeMs) => ({
  ':authority': 'shop.example.com',
  bytes_received: 0,
  bytes_sent: 466,
  connection_termination_details: null,
  downstream_local_address: '10.244.0.14:3000',
  downstream_remote_address: '10.244.0.12:34805',
  duration: 1,
  method: 'GET',
  protocol: 'HTTP/1.1',
  requested_server_name: null,
  response_code: 200,
  response_code_details: 'via_upstream',
  response_flags: '-',
  route_name: 'httproute/default/backend/rule/0/match/0/shop_example_com',
  start_time: new Date(timeMs).toISOString(),
  upstream_cluster: 'httproute/default/backend/rule/0',
  upstream_host: '10.244.0.13:3000',
  upstream_local_address: '10.244.0.14:58822',
  upstream_transport_failure_reason: null,
  'user-agent': 'curl/8.16.0',
  'x-envoy-origin-path': '/items/7?page=2',
  'x-envoy-upstream-service-time': null,
  'x-forwarded-for': '10.244.0.12',
  'x-request-id': 'ab1e4da7-5f1d-45ea-bb4a-fa1ccd03b82b',
  'x-user': user,
});

/** How many requests a file has, and of how many users. */
interface Traffic {
  readonly requests: number;
  readonly users: number;
}

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({ args, options });
  const traffic = { requests: parseCount('--requests', values.requests), users: parseCount('--users', values.users) };
  await withCleanup((onEnd) => measure(traffic, temporaryFolder('replay-cost', onEnd)));
}

async function measure(traffic: Traffic, folder: string): Promise<void> {
  const recording = join(folder, 'recording.ndjson.gz');
  const [rules, other] = [join(folder, 'rules.yaml'), join(folder, 'other.yaml')];
  writeFileSync(rules, RULES);
  writeFileSync(other, RULES.replace('10 }', '8 }'));
  const [log, mapping] = [join(folder, 'access.log.gz'), join(folder, 'mapping.yaml')];
  writeFileSync(mapping, MAPPING);
  await pipeline(Readable.from(lines(recorded, traffic)), createGzip({ level: 1 }), createWriteStream(recording));
  await pipeline(Readable.from(lines(logged, traffic)), createGzip({ level: 1 }), createWriteStream(log));
  console.log(
    `${traffic.requests} requests of ${traffic.users} users, ${Math.round(statSync(recording).size / 1e6)} MB compressed\n`,
  );
  const report = (name: string, args: readonly string[]) =>
    console.log(tableRow([name, ...measureCost(args, traffic.requests)]));
  console.log(tableHead(['weir replay', 'CPU a request, µs', 'largest memory, MB']));
  report('--rules', ['--rules', rules, recording]);
  report('--rules --answers', ['--rules', rules, '--answers', recording]);
  report('--rules --against', ['--rules', rules, '--against', other, recording]);
  report('--rules --against --html', ['--rules', rules, '--against', other, '--html', join(folder, 'page'), recording]);
  report('--rules --mapping', ['--rules', rules, '--mapping', mapping, log]);
}

/** Two requests per millisecond, most of them by a few users. */
function* lines(lineOf: LineOf, { requests, users }: Traffic): Iterable<string> {
  const random = numbers(1);
  let text = '';
  for (let at = 0; at < requests; at++) {
    const user = `user-${Math.floor(random() ** 3 * users)}`;
    text += `${JSON.stringify(lineOf(user, START_MS + Math.floor(at / 2)))}\n`;
    if (text.length < 1_000_000) continue;
    yield text;
    text = '';
  }
  yield text;
}

/** @returns  CPU time per request, and peak memory */
function measureCost(args: readonly string[], requests: number): readonly [string, number] {
  const script = '"$0" "$@" 2>&1 >/dev/null';
  const command = [process.execPath, '--import', REPORT_USAGE, MAIN, 'replay', ...args];
  const printed = execFileSync('sh', ['-c', script, ...command], { encoding: 'utf8' });
  const { userCPUTime, systemCPUTime, maxRSS }: NodeJS.ResourceUsage = JSON.parse(printed);
  return [((userCPUTime + systemCPUTime) / requests).toFixed(1), Math.round(maxRSS / 1024)];
}
