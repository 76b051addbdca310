import '../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual, promisify } from 'node:util';
import type { UsageAnswer } from '../../src/parts/usage/answers.ts';
import { type Redis, startRedis } from '../helpers/redis.ts';
import { eventually } from '../helpers/until.ts';
import { MAIN, startWeir, type Weir } from '../helpers/weir.ts';
import { type Ask, type DoorName, mappingOf, openDoors } from './doors.ts';
import { DOMAIN, hasId, type Kind, kinds, rulesOf } from './kinds.ts';
import { expectedViews, type Read, readMetrics, readViews } from './views.ts';

const rules = rulesOf(kinds);
const TOKEN = 'operator';
/** The door whose counters are viewed. */
const VIEWED = 'ShouldRateLimit';
const viewedValue = (door: DoorName): string => door.replace(/\W/g, '');

const NO_SLOTS = 'no descriptor meets a limit with algorithm: in_flight and an id (not_counted: hold)';
const NO_RESERVE = 'no descriptor meets a limit with reserve and an id (not_counted: hold)';

/** The requests that must pass through each door, of one more than there is room for; or why the door refuses all. */
function expectedPasses(kind: Kind): Readonly<Record<DoorName, number | string>> {
  const all = kind.room + 1;
  const some = kind.passes ? all : kind.room;
  const isSpent = kind.use !== 'slots'; // reports of what is over take no slots
  return {
    ShouldRateLimit: some,
    batch: kind.isOverridden ? all : some, // other descriptors have no override
    '/json': kind.isOverridden ? all : some,
    '/authz': kind.isOverridden || kind.isStated || kind.isReported ? all : some, // subrequests state no limits, and no status
    engine: kind.isOverridden || kind.isStated ? all : some, // and neither do callers of the engine
    '/holds/acquire': kind.use === 'slots' && hasId(kind) ? some : NO_SLOTS,
    '/holds/reserve': kind.use === 'reserve' ? some : NO_RESERVE,
    'Kuadrant check and report': isSpent && !kind.isOverridden ? some : all,
    'Kuadrant reserve': kind.use === 'reserve' ? some : all, // peeks at others
  };
}

describe.each(['memory', 'redis'] as const)('with counters in %s', (store) => {
  const folder = mkdtempSync(join(tmpdir(), 'matrix-'));
  let redis: Redis | undefined;
  let weir: Weir;
  let open: Awaited<ReturnType<typeof openDoors>>;
  const read: Read = async (path, body) => {
    const answer = await fetch(`http://127.0.0.1:${weir.debugPort}${path}`, {
      method: path.endsWith('overrides') ? 'PUT' : body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    return path === '/metrics' ? text : JSON.parse(text);
  };
  beforeAll(async () => {
    const file = (name: string, text: string): string => {
      writeFileSync(join(folder, name), text);
      return join(folder, name);
    };
    if (store === 'redis') redis = await startRedis();
    weir = await startWeir(
      {
        ...(redis ? { BACKEND_TYPE: 'redis', REDIS_URL: `127.0.0.1:${redis.port}` } : { BACKEND_TYPE: 'memory' }),
        AUTHZ_MAPPING: file('authz.yaml', mappingOf(kinds)),
        CANDIDATE_RULES_PATH: file('rules.yaml', rules),
        LIMIT_RESPONSE_HEADERS_ENABLED: 'true',
        LIMIT_IETF_HEADERS: 'true',
        LIMIT_RETRY_AFTER_HEADERS: 'Retry-After',
        LIMIT_WOULD_REFUSE_HEADER: 'Would-Refuse',
        RESPONSE_DYNAMIC_METADATA: 'true',
        ADMIN_TOKEN: TOKEN,
        EXPLAIN_SAMPLE: '1000',
        USAGE_DIR: join(folder, 'usage'),
        USAGE_INTERVAL: '100ms',
        RECORD_TO: join(folder, 'recordings'),
        USE_STATSD: 'false',
      },
      { args: ['--rules', join(folder, 'rules.yaml')] },
    );
    open = await openDoors(weir, rules, redis ? { redis: `redis://127.0.0.1:${redis.port}` } : 'memory');
    for (const { name } of kinds.filter(({ isOverridden }) => isOverridden))
      await read('/api/v1/overrides', {
        ...{ domain: DOMAIN, descriptor: [{ key: name, value: VIEWED }], reason: 'a test', effect: 'limit' },
        ...{ requestsPerUnit: 3, unit: 'DAY', until: new Date(Date.now() + 200 * 86_400_000).toISOString() },
      });
  });
  afterAll(async () => {
    await open.close();
    await weir.stop();
    await redis?.stop();
    rmSync(folder, { recursive: true });
  });

  /** The requests that pass, of one more than there is room for; the message of a door that refuses all. */
  async function countPasses(kind: Kind, door: DoorName): Promise<number | string> {
    const asks = Array.from(
      { length: kind.room + 1 },
      (_, at): Ask => ({ kind, value: viewedValue(door), id: `${at}` }),
    );
    const passed: boolean[] = [];
    try {
      if (kind.isReported)
        for (const ask of asks) {
          passed.push(await open.doors[door](ask));
          if (passed.at(-1)) await open.doors[door]({ ...ask, hits: 401 });
        }
      else if (door === 'Kuadrant check and report') for (const ask of asks) passed.push(await open.doors[door](ask));
      else passed.push(...(await Promise.all(asks.map((ask) => open.doors[door](ask)))));
    } catch (cause) {
      return (cause as Error).message;
    }
    return passed.filter((one) => one).length;
  }

  test.each(kinds.map((kind) => [kind.name, kind] as const))('%s is the same limit at every door', async (_, kind) => {
    const passes: Partial<Record<DoorName, number | string>> = {};
    for (const door of Object.keys(open.doors) as DoorName[]) passes[door] = await countPasses(kind, door);
    expect(passes).toEqual(expectedPasses(kind));
  });

  // those that refill within a second have no lasting state to compare
  const lasting = kinds.filter(({ wait }) => wait !== 'second');
  test.each(lasting.map((kind) => [kind.name, kind] as const))(
    '%s is the same limit in every view',
    async (_, kind) => {
      const views = await readViews({ kind, value: VIEWED, id: 'one more' }, open.client, read);
      const { metrics, ...expected } = expectedViews(kind);
      expect(views).toEqual(expected);
      expect(readMetrics(String(await read('/metrics')), kind)).toEqual(metrics);
    },
  );

  test('usage has what each kind lets pass, and nothing of what is held', async () => {
    const expected = Object.fromEntries(lasting.map(({ name, usage }) => [name, usage]));
    const found = async () => {
      const { rows = [] } = (await read('/api/v1/usage?count=1000')) as Partial<UsageAnswer>; // refused while another report runs
      return Object.fromEntries(
        lasting.map(({ name }) => [name, rows.find(({ key }) => key === `${name}=${VIEWED}`)?.hits]),
      );
    };
    let last: Awaited<ReturnType<typeof found>> = {};
    const isAsExpected = async () => {
      last = await found();
      return isDeepStrictEqual(last, expected);
    };
    await eventually(isAsExpected, () => JSON.stringify(last)); // it is collected in intervals
  });

  test('a candidate with the same rules would refuse the same', async () => {
    expect(await read('/api/v1/candidate')).toMatchObject({ totals: { newlyRefused: 0, newlyPassed: 0 }, failed: 0 });
  });

  test('a replay of what was recorded gives the same answers', async () => {
    await weir.stop(); // which ends the recording
    const recordings = readdirSync(join(folder, 'recordings')).map((name) => join(folder, 'recordings', name));
    const args = [MAIN, 'replay', '--verify', '--rules', join(folder, 'rules.yaml'), ...recordings];
    const { stdout } = await promisify(execFile)(process.execPath, args); // fails for a different answer
    expect(stdout).toMatch(/^matrix\.budget\n.*\n.*\n {2}peak admitted {3}3\.00 USD in 1 d, limit 3\.00 USD /m);
  });
});
