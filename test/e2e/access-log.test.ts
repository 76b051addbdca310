import '../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startEnvoy } from '../helpers/envoy.ts';
import { MAIN, startWeir } from '../helpers/weir.ts';

const run = promisify(execFile);

const RULES = `
domain: demo
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 5 }
  - key: path
    value: /login*
    rate_limit: { unit: year, requests_per_unit: 8 }
    descriptors:
      - key: remote_address
        rate_limit: { unit: year, requests_per_unit: 3, algorithm: sliding_window_log }
`;

/**
 * The default format of Envoy Gateway, and the header that the rules need.
 *
 * @see https://gateway.envoyproxy.io/docs/tasks/observability/proxy-accesslog/
 */
const ENVOY_GATEWAY = {
  start_time: '%START_TIME%',
  method: '%REQ(:METHOD)%',
  'x-envoy-origin-path': '%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%',
  protocol: '%PROTOCOL%',
  response_code: '%RESPONSE_CODE%',
  response_flags: '%RESPONSE_FLAGS%',
  response_code_details: '%RESPONSE_CODE_DETAILS%',
  'x-forwarded-for': '%REQ(X-FORWARDED-FOR)%',
  'user-agent': '%REQ(USER-AGENT)%',
  'x-request-id': '%REQ(X-REQUEST-ID)%',
  ':authority': '%REQ(:AUTHORITY)%',
  upstream_cluster: '%UPSTREAM_CLUSTER%',
  downstream_remote_address: '%DOWNSTREAM_REMOTE_ADDRESS%',
  route_name: '%ROUTE_NAME%',
  'x-user': '%REQ(X-USER)%',
};

/** Istio's default format. @see https://istio.io/latest/docs/tasks/observability/logs/access-log/ */
const ISTIO_TEXT =
  '[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% %CONNECTION_TERMINATION_DETAILS% "%UPSTREAM_TRANSPORT_FAILURE_REASON%" %BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%" %UPSTREAM_CLUSTER% %UPSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_REMOTE_ADDRESS% %REQUESTED_SERVER_NAME% %ROUTE_NAME%\n';

const folder = mkdtempSync(join(tmpdir(), 'access-log-'));
const [rules, json, text] = ['rules.yaml', 'envoy-gateway.log', 'istio.log'].map((name) => join(folder, name)) as [
  string,
  string,
  string,
]; // three in, three out
/** The statuses that clients saw, in the order of their requests. */
const statuses: number[] = [];

/** Requests of which every limit of the rules refuses some. */
const REQUESTS = Array.from({ length: 60 }, (_, at): readonly [path: string, user: string | undefined] => [
  at % 4 === 0 ? `/login?try=${at % 3}` : `/items/${at}`,
  at % 5 === 4 ? undefined : `user-${at % 7}`,
]);

beforeAll(async () => {
  writeFileSync(rules, RULES);
  const weir = await startWeir({}, { args: ['--rules', rules] });
  const envoy = await startEnvoy(weir.grpcPort, (config) => config.replace('stat_prefix: fails_open', logging()));
  for (const [path, user] of REQUESTS) {
    const answer = await envoy.get('10000', path, user);
    await answer.arrayBuffer();
    statuses.push(answer.status);
  }
  await envoy.waitFor(async () => linesIn(json) === REQUESTS.length && linesIn(text) === REQUESTS.length);
  await envoy.stop();
  await weir.stop();
});

/** The configuration of both logs, in one line each. */
function logging(): string {
  const type = 'type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog';
  const logs = [
    { path: json, log_format: { json_format: ENVOY_GATEWAY } },
    { path: text, log_format: { text_format_source: { inline_string: ISTIO_TEXT } } },
  ].map((log) => ({ name: 'envoy.access_loggers.file', typed_config: { '@type': type, ...log } }));
  return `stat_prefix: fails_open\n                access_log: ${JSON.stringify(logs)}`;
}

function linesIn(path: string): number {
  try {
    return readFileSync(path, 'utf8').split('\n').length - 1;
  } catch {
    return 0;
  }
}

const weirReplay = async (args: readonly string[]): Promise<string> => {
  const { stdout } = await run(process.execPath, [MAIN, 'replay', '--rules', rules, ...args]);
  return stdout;
};

test("a replay of Envoy's access log gives each request the same answer as Envoy got", async () => {
  const answers = (await weirReplay(['--mapping', 'docs/mapping.yaml', '--answers', json])).trim().split('\n');
  const replayed = answers.map((line) => JSON.parse(line).code);
  expect(replayed).toEqual(statuses.map((status) => (status === 429 ? 'OVER_LIMIT' : 'OK')));
  expect(new Set(replayed)).toEqual(new Set(['OK', 'OVER_LIMIT']));
});

test('a replay finds the answers that Envoy got in its log, and verifies its own against them', async () => {
  const report = JSON.parse(await weirReplay(['--mapping', 'docs/mapping.yaml', '--verify', '--json', json]));
  const refused = statuses.filter((status) => status === 429).length;
  expect(report).toMatchObject({ requests: REQUESTS.length, refused, lines: { broken: 0, unmapped: 0 } });
  expect(report.recorded).toEqual({ answers: REQUESTS.length, same: REQUESTS.length });
});

test("Istio's text format has the same paths and addresses, and a learned mapping replays either log", async () => {
  for (const log of [json, text]) {
    const learned = join(folder, 'learned.yaml');
    writeFileSync(learned, await weirReplay(['--learn', log]));
    const report = JSON.parse(await weirReplay(['--mapping', learned, '--json', log]));
    expect(report).toMatchObject({ requests: REQUESTS.length, lines: { broken: 0, unmapped: 0 } });
    expect(Object.keys(report.rules)).toContain('demo.path_/login*');
    expect(report.rules['demo.path_/login*']).toMatchObject({ requests: 15, admitted: 8, refused: 7 });
  }
});
