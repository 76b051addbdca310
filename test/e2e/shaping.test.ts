import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Envoy, startEnvoy } from '../helpers/envoy.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

// A turn takes five seconds, so a burst has this time to arrive before a turn becomes free for a further request.
const RULES = `
domain: demo
descriptors:
  - key: user
    value: queued
    rate_limit: { unit: minute, requests_per_unit: 12, algorithm: leaky_bucket, burst: 1, max_delay: 25s }
  - key: user
    value: impatient
    rate_limit: { unit: day, requests_per_unit: 2, algorithm: leaky_bucket, burst: 1 }
  - key: user
    value: warned
    rate_limit: { unit: day, requests_per_unit: 1, soft: 1, algorithm: sliding_window_log }
`;

let folder: string;
let weir: Weir;
let envoy: Envoy;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rules-'));
  await writeFile(join(folder, 'rules.yaml'), RULES);
  weir = await startWeir({}, { args: ['--rules', join(folder, 'rules.yaml')] });
  envoy = await startEnvoy(weir.grpcPort);
  await envoy.waitFor(async () => (await envoy.get('10001', '/')).status === 200); // Envoy has connected to Weir
});

afterAll(async () => {
  await envoy?.stop();
  await weir?.stop();
});

/** Sends requests at once. @returns the count of each status */
async function burst(user: string, requests: number): Promise<Record<number, number>> {
  const counts: Record<number, number> = {};
  const answers = Array.from({ length: requests }, () => envoy.get('10001', '/', user));
  for (const { status } of await Promise.all(answers)) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

test('one of 20 concurrent requests passes at once, five in turn, and the rest are refused', async () => {
  expect(await burst('queued', 20)).toEqual({ 200: 6, 429: 14 });
});

test('without max_delay, only the first request passes', async () => {
  expect(await burst('impatient', 20)).toEqual({ 200: 1, 429: 19 });
});

test('a request on the soft part of a limit passes with a header for the client', async () => {
  const answers = [];
  for (let times = 0; times < 3; times++) {
    const { status, headers } = await envoy.get('10000', '/', 'warned');
    answers.push([status, headers.get('x-ratelimit-soft-exceeded'), headers.get('x-ratelimit-remaining')]);
  }
  expect(answers).toEqual([
    [200, null, '0'],
    [200, 'demo.user_warned', '0'],
    [429, null, '0'],
  ]);
});
