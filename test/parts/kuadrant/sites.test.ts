import '../../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../../helpers/process.ts';
import { grpcurl } from '../../helpers/tools.ts';
import { until } from '../../helpers/until.ts';
import { startWeir, type Weir } from '../../helpers/weir.ts';

const RULES = `
domain: edge
descriptors:
  - key: all
    rate_limit: { unit: day, requests_per_unit: 100, sites: { mode: escrow } }
`;

let folder: string;
let weirs: readonly Weir[];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sites-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  const ports = [await freePort(), await freePort()];
  const names = ['east', 'west'];
  weirs = await Promise.all(
    names.map((SITE, at) =>
      startWeir({
        ...{ RULES_PATH: join(folder, 'rules.yaml'), USE_STATSD: 'false', BACKEND_TYPE: 'memory' },
        ...{ SITE, SITE_HOST: '127.0.0.1', SITE_PORT: String(ports[at]) },
        SITE_PEERS: `${names[1 - at]}=127.0.0.1:${ports[1 - at]}`,
      }),
    ),
  );
});
afterAll(async () => {
  for (const weir of weirs) await weir.stop();
});

async function call(method: string, hitsAddend: number): Promise<{ readonly overallCode?: string }> {
  const request = { domain: 'edge', hitsAddend, descriptors: [{ entries: [{ key: 'all', value: 'v' }] }] };
  const to = `127.0.0.1:${weirs[0]?.grpcPort}`;
  const path = `kuadrant.service.ratelimit.v1.RateLimitService/${method}`;
  const args = ['-plaintext', '-d', JSON.stringify(request), to, path];
  return JSON.parse((await promisify(execFile)(await grpcurl(), args)).stdout);
}

test("a site borrows hits that Kuadrant's checks and reports lack", async () => {
  await call('Report', 50);
  await until('hits are borrowed', async () => (await call('CheckRateLimit', 10)).overallCode === 'OK');
  await call('Report', 10);
});
