import { mkdtempSync, renameSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Envoy, startEnvoy } from '../helpers/envoy.ts';
import { LISTENER, listener, ROUTE, selected } from '../helpers/envoy-gateway.ts';
import { freePort, type Running, start } from '../helpers/process.ts';
import { goControlPlane } from '../helpers/tools.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

/** Envoy with Envoy Gateway's route, and Weir with Envoy Gateway's rules, from a control plane like its own. */

const OVERLAY = `
domain: ${LISTENER}
descriptors:
- key: ${ROUTE}
  value: ${ROUTE}
  descriptors: [{ key: rule-0-match-0, rate_limit: { algorithm: token_bucket, burst: 5 } }]
`.trimStart();

/** The configuration that Envoy Gateway adds to a route for a limit on each value of a header. */
const ROUTE_CONFIG = `
                          typed_per_filter_config:
                            envoy.filters.http.ratelimit:
                              "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
                              domain: ${LISTENER}
                              rate_limits:
                                - actions:
                                    - generic_key: { descriptor_key: ${ROUTE}, descriptor_value: ${ROUTE} }
                                    - request_headers: { descriptor_key: rule-0-match-0, header_name: x-user }`;

let folder: string;
let controlPlane: Running;
let weir: Weir;
let envoy: Envoy;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'overlay-'));
  const port = await freePort();
  controlPlane = await start(await goControlPlane(), [`127.0.0.1:${port}`], { readsInput: true });
  await controlPlane.waitFor('listening');
  write('# nothing yet\n');
  weir = await startWeir({
    CONFIG_TYPE: 'GRPC_XDS_SOTW',
    CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${port}`,
    CONFIG_GRPC_XDS_NODE_ID: 'weir',
    RULES_OVERLAY: join(folder, 'overlay.yaml'),
    LOG_LEVEL: 'debug',
  });
  push('v1', 2);
  await weir.waitFor('loaded 1 rule ');
  envoy = await startEnvoy(weir.grpcPort, (config) =>
    config
      .replace(/ +rate_limits:\n[\s\S]*?(?= +routes:\n)/, '')
      .replace('{ cluster: upstream }', (route) => route + ROUTE_CONFIG),
  );
  await envoy.waitFor(async () => (await envoy.get('10001', '/')).status === 200); // Envoy has connected to Weir
});
afterAll(async () => {
  await envoy?.stop();
  await weir?.stop();
  await controlPlane?.stop();
});

/** Writes the overlay atomically. */
function write(text: string): void {
  writeFileSync(join(folder, 'new'), text);
  renameSync(join(folder, 'new'), join(folder, 'overlay.yaml'));
}

/** Sends rules with a number of requests per day for each user. */
function push(version: string, requestsPerUnit: number): void {
  const rule = selected['each value of a header']({ unit: 'DAY', requests_per_unit: requestsPerUnit });
  controlPlane.write(`${JSON.stringify({ version, resources: [listener(rule)] })}\n`);
}

/** The statuses of consecutive requests of a user. */
async function statuses(user: string, requests: number): Promise<readonly number[]> {
  const found: number[] = [];
  for (let times = 0; times < requests; times++) found.push((await envoy.get('10001', '/', user)).status);
  return found;
}

const page = async (path: string): Promise<string> => (await fetch(`http://127.0.0.1:${weir.debugPort}${path}`)).text();

test("five lines turn Envoy Gateway's window into a bucket, without a push or a restart", async () => {
  expect(OVERLAY.trim().split('\n')).toHaveLength(5);
  expect(await statuses('ann', 3)).toEqual([200, 200, 429]);
  write(OVERLAY);
  await weir.waitFor(`algorithm comes from ${folder}/overlay.yaml:5`);
  expect(await statuses('ann', 6)).toEqual([200, 200, 200, 200, 200, 429]);
  const decision = new RegExp(
    `applying limit: 2 per day by token_bucket, rule .* \\(${LISTENER}, overlaid: algorithm \\(`,
  );
  expect(weir.output()).toMatch(decision);
  const places = `overlaid: algorithm (${folder}/overlay.yaml:5), burst (${folder}/overlay.yaml:5)\n`;
  expect(await page('/rlconfig')).toContain(`algorithm: token_bucket, burst: 5, ${places}`);
});

test('a push changes the rate, and keeps the bucket', async () => {
  write(OVERLAY);
  push('v2', 3);
  await weir.waitFor(async () =>
    /requests_per_unit=3, .*algorithm: token_bucket, burst: 5/.test(await page('/rlconfig')),
  );
  expect(await statuses('bob', 6)).toEqual([200, 200, 200, 200, 200, 429]);
});

test('an invalid overlay changes nothing, and /rlconfig shows the position of its error', async () => {
  write(OVERLAY);
  await weir.waitFor(async () => (await page('/rlconfig')).includes('burst: 5'));
  write(OVERLAY.replace('burst: 5', 'burst: 0'));
  const problem = `# ${folder}/overlay.yaml:5: descriptors[0].descriptors[0].rate_limit.burst: must be at least 1, got 0\n`;
  await weir.waitFor(async () => (await page('/rlconfig')).includes(problem));
  expect(await statuses('cem', 6)).toEqual([200, 200, 200, 200, 200, 429]);
});
