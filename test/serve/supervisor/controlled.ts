import '../../helpers/realm.ts';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { childrenOf } from '../../helpers/child-processes.ts';
import { parseExposition } from '../../helpers/exposition.ts';
import { createClient, type GrpcClient } from '../../helpers/grpc-client.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { until } from '../../helpers/until.ts';
import { startWeir, type Weir } from '../../helpers/weir.ts';

export const OK = 1;
export const LIMIT = 50;
export const RULES = `
domain: demo
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: ${LIMIT}, alignment: first_hit}}
  - {key: queue, rate_limit: {unit: second, requests_per_unit: 1, algorithm: leaky_bucket, max_delay: 10s}}
`;
const USER = 'weir_hits_total{domain="demo",rule="user",algorithm="fixed_window"}';
/** More calls than a service with a fault that shows under load answers without showing it. */
const MORE_CALLS = 200;
/** The pause between two calls of a connection, in which the processes do what is tested. */
const PAUSE_MS = 2;
/** Longer than the control process waits for a report, and the supervisor for files. */
export const STOPPED_MS = 3_000;

export let redis: Redis;
export let folder: string;
export let stops: (() => unknown)[];

beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'control-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  stops = [];
});
afterEach(async () => {
  for (const stop of stops.reverse()) await stop();
  await redis.restart();
});

export const rules = (text: string): void => writeFileSync(join(folder, 'rules.yaml'), text);

export async function service(env: Readonly<Record<string, string>>, args = ['--rules', join(folder, 'rules.yaml')]) {
  const weir = await startWeir({ LOG_LEVEL: 'info', USE_STATSD: 'false', ADMIN_TOKEN: 'token', ...env }, { args });
  stops.push(weir.stop);
  return weir;
}

export const onRedis = (workers: number) => ({ WORKERS: String(workers), REDIS_URL: redis.url });
const commandOf = (pid: number): string => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1');
  } catch {
    return ''; // it has ended
  }
};
const controlsOf = ({ pid }: Weir): readonly number[] =>
  childrenOf(pid).filter((child) => commandOf(child).includes('control-process'));

export function controlOf(weir: Weir): number {
  const [control] = controlsOf(weir);
  if (control === undefined) throw new Error(`expected a control process; the output:\n${weir.output()}`);
  return control;
}

export const workersOf = ({ output }: Weir): readonly number[] =>
  Array.from(output().matchAll(/worker \d+ \(process (\d+)\) is listening/g), ([, pid]) => Number(pid));

export const isRunning = (pid: number): boolean => !['', undefined].includes(commandOf(pid));

export function client({ grpcPort }: Weir): GrpcClient {
  const made = createClient(`127.0.0.1:${grpcPort}`);
  stops.push(made.close);
  return made;
}

export const ofUser = (value: string) => ({
  domain: 'demo',
  descriptors: [{ entries: [{ key: 'user', value }], limit: null, hits_addend: null, is_negative_hits: false }],
  hits_addend: 1,
});
export const queued = {
  ...ofUser('1'),
  descriptors: [{ entries: [{ key: 'queue', value: '1' }], limit: null, hits_addend: null, is_negative_hits: false }],
};

/** Calls in a loop over four connections, one after another on each. A call that fails makes `end` reject. */
export function load(weir: Weir) {
  let isOver = false;
  const done = { calls: 0, passed: 0 };
  const loops = Promise.all(
    Array.from({ length: 4 }, async () => {
      const { ask } = client(weir);
      while (!isOver) {
        if ((await ask()).overall_code === OK) done.passed++;
        done.calls++;
        await sleep(PAUSE_MS);
      }
    }),
  );
  loops.catch(() => {}); // `end` reports it
  return {
    /** Waits for further calls. */
    async more(calls = MORE_CALLS) {
      const from = done.calls;
      await Promise.race([loops, until('further calls', () => done.calls >= from + calls)]);
    },
    async end() {
      isOver = true;
      await loops;
      return done;
    },
  };
}

export const page = async ({ debugPort }: Weir, path: string): Promise<string> =>
  (await fetch(`http://127.0.0.1:${debugPort}${path}`)).text();

/** The samples of /metrics by series; none while there is no control process. */
export async function samples(weir: Weir): Promise<ReadonlyMap<string, number>> {
  const text = await page(weir, '/metrics').catch(() => '\n');
  return new Map([...parseExposition(text).values()].flatMap((metric) => [...metric.samples]));
}

/** Waits until the statistics contain these calls, each with one hit, and no others. */
export async function expectCounted(weir: Weir, calls: number): Promise<void> {
  await until(`${calls} hits`, async () => ((await samples(weir)).get(USER) ?? 0) >= calls);
  const counted = await samples(weir);
  expect(counted.get(USER)).toBe(calls);
  const answers = [...counted].filter(([series]) => series.startsWith('weir_answers_total'));
  expect(answers.reduce((sum, [, count]) => sum + count, 0)).toBe(calls);
}

export async function api({ debugPort }: Weir, method: string, body?: object) {
  const url = `http://127.0.0.1:${debugPort}/api/v1/overrides`;
  const headers = { authorization: 'Bearer token' };
  const answer = await fetch(url, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  expect(answer.status).toBe(200);
  return answer.json();
}

export const BLOCKED = { domain: 'demo', descriptor: [{ key: 'user', value: 'eve' }] };
export const block = (weir: Weir) =>
  api(weir, 'PUT', {
    ...BLOCKED,
    ...{ effect: 'block', until: new Date(Date.now() + 3_600_000).toISOString(), reason: 'abuse' },
  });
export const isBlocked = async (one: GrpcClient): Promise<boolean> =>
  (await one.send(ofUser('eve'))).overall_code !== OK;

export const untilReplaced = (weir: Weir): Promise<void> => weir.waitFor('the control process was replaced');
