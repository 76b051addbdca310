import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { UsageAnswer } from '../../../src/parts/usage/answers.ts';
import { createClient } from '../../helpers/grpc-client.ts';
import { type Postgres, startPostgres } from '../../helpers/postgres.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { asLocal, MAIN, startWeir, type Weir } from '../../helpers/weir.ts';

export const RULES = `domain: shop
descriptors:
  - key: user
    rate_limits:
      - { unit: second, requests_per_unit: 1000 }
      - { unit: year, requests_per_unit: 10 }
  - key: lookup
    unit_cost: 0.0125 USD
    rate_limit: { unit: year, budget: 100 USD }
  - key: team
    rate_limit: { unit: year, requests_per_unit: 1000 }
  - key: api
    rate_limit: { unit: minute, requests_per_unit: 100, share: { by: org } }
    descriptors:
      - { key: org, value: acme, share: { weight: 2, by: team } }
  - key: tenant
    descriptors:
      - key: request_id
        not_counted: hold
        rate_limit: { unit: year, requests_per_unit: 1000, reserve: { ttl: 60s } }
        descriptors:
          - { key: used, not_counted: commit }
`;

export let folder: string;
export let redis: Redis;
export let postgres: Postgres;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'usage-'));
  await writeFile(join(folder, 'rules.yaml'), RULES);
  [redis, postgres] = await Promise.all([startRedis(), startPostgres()]);
});
afterAll(async () => {
  await Promise.all([redis.stop(), postgres.stop(), rm(folder, { recursive: true })]);
});

export const closing: (() => Promise<void>)[] = [];
export const services: Weir[] = [];
afterEach(async () => {
  for (const weir of services.splice(0)) await weir.stop();
  for (const close of closing.splice(0)) await close();
});

export async function start(env: Readonly<Record<string, string>>): Promise<Weir> {
  const common = { USAGE_INTERVAL: '100ms', USE_STATSD: 'false' };
  const weir = await startWeir({ ...common, ...env }, { args: ['--rules', join(folder, 'rules.yaml')] });
  services.push(weir);
  return weir;
}

export async function ask({ grpcPort }: Weir, entries: Readonly<Record<string, string>>, hits: number): Promise<void> {
  const client = createClient(`127.0.0.1:${grpcPort}`);
  const list = Object.entries(entries).map(([key, value]) => ({ key, value }));
  await client.send({
    domain: 'shop',
    descriptors: [{ entries: list, limit: null, hits_addend: { value: Math.abs(hits) }, is_negative_hits: hits < 0 }],
    hits_addend: 1,
  });
  client.close();
}

export async function usageOf({ debugPort }: Weir, ...args: readonly string[]): Promise<string> {
  const all = [MAIN, 'usage', '--target', `127.0.0.1:${debugPort}`, ...args];
  return (await promisify(execFile)(process.execPath, all)).stdout;
}

/** Waits for a report of the API, which takes less time than `weir usage`. */
export const untilReported = (weir: Weir, isExpected: (report: UsageAnswer) => boolean, token = '') =>
  weir.waitFor(async () => {
    const headers = token === '' ? asLocal(weir) : { authorization: `Bearer ${token}` };
    const answer = await fetch(`http://127.0.0.1:${weir.debugPort}/api/v1/usage`, { headers });
    return answer.ok && isExpected((await answer.json()) as UsageAnswer); // as the API documents
  });
export const settled = (weir: Weir, hits: number, token?: string) =>
  untilReported(weir, (report) => report.hits === hits, token);
