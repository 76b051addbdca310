import { execFileSync } from 'node:child_process';
import { createWriteStream, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { createGzip } from 'node:zlib';

const START_MS = 1_700_000_000_000;
const MAIN = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
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

const usage = `Usage: npm run replay-cost -- [options]

Measures the CPU time that \`weir replay\` takes for each request of a compressed recording, and of a compressed access
log of Envoy Gateway, and its peak memory. Takes about two minutes.

  --requests N  in each file (2000000)
  --users N     distinct keys of these requests, most used a few times (100000)
  --help        this text
`;

const { values } = parseArgs({
  options: {
    requests: { type: 'string', default: '2000000' },
    users: { type: 'string', default: '100000' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(usage);
  process.exit(0);
}
const [REQUESTS, USERS] = [Number(values.requests), Number(values.users)];

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

const folder = mkdtempSync(join(tmpdir(), 'replay-cost-'));
try {
  await measure();
} finally {
  rmSync(folder, { recursive: true });
}

async function measure(): Promise<void> {
  const recording = join(folder, 'recording.ndjson.gz');
  const [rules, other] = [join(folder, 'rules.yaml'), join(folder, 'other.yaml')];
  writeFileSync(rules, RULES);
  writeFileSync(other, RULES.replace('10 }', '8 }'));
  const [log, mapping] = [join(folder, 'access.log.gz'), join(folder, 'mapping.yaml')];
  writeFileSync(mapping, MAPPING);
  await pipeline(Readable.from(lines(recorded)), createGzip({ level: 1 }), createWriteStream(recording));
  await pipeline(Readable.from(lines(logged)), createGzip({ level: 1 }), createWriteStream(log));
  console.log(`${REQUESTS} requests of ${USERS} users, ${Math.round(statSync(recording).size / 1e6)} MB compressed\n`);
  console.log('| weir replay | CPU a request, µs | largest memory, MB |');
  console.log('| --- | --- | --- |');
  report('--rules', ['--rules', rules, recording]);
  report('--rules --answers', ['--rules', rules, '--answers', recording]);
  report('--rules --against', ['--rules', rules, '--against', other, recording]);
  report('--rules --against --html', ['--rules', rules, '--against', other, '--html', join(folder, 'page'), recording]);
  report('--rules --mapping', ['--rules', rules, '--mapping', mapping, log]);
}

/** Two requests per millisecond, most of them by a few users. */
function* lines(lineOf: LineOf): Iterable<string> {
  let text = '';
  let state = 1;
  for (let at = 0; at < REQUESTS; at++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    const user = `user-${Math.floor((state / 2 ** 32) ** 3 * USERS)}`;
    text += `${JSON.stringify(lineOf(user, START_MS + Math.floor(at / 2)))}\n`;
    if (text.length < 1_000_000) continue;
    yield text;
    text = '';
  }
  yield text;
}

function report(name: string, args: readonly string[]): void {
  const script = '"$0" "$@" 2>&1 >/dev/null';
  const command = [process.execPath, '--import', REPORT_USAGE, MAIN, 'replay', ...args];
  const printed = execFileSync('sh', ['-c', script, ...command], { encoding: 'utf8' });
  const { userCPUTime, systemCPUTime, maxRSS }: NodeJS.ResourceUsage = JSON.parse(printed);
  console.log(`| ${name} | ${((userCPUTime + systemCPUTime) / REQUESTS).toFixed(1)} | ${Math.round(maxRSS / 1024)} |`);
}
