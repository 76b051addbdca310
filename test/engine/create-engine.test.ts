import '../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import {
  CountersUnavailable,
  createEngine,
  type Engine,
  type EngineOptions,
  InvalidOptions,
  InvalidRequest,
  InvalidRules,
  RulesNotLoaded,
  type StoreEvent,
} from '../../src/engine/index.ts';
import { fakeClock } from '../helpers/clock.ts';
import { createClient } from '../helpers/grpc-client.ts';
import { freePort } from '../helpers/process.ts';
import { startRedis } from '../helpers/redis.ts';
import { until } from '../helpers/until.ts';
import { MAIN, startWeir } from '../helpers/weir.ts';

const rulesOf = (perYear: number, more = ''): string => `domain: shop
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: ${perYear}${more} }
`;

const closing: (() => unknown)[] = [];
const closeLater = (close: () => unknown): void => void closing.push(close);
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function open(options: EngineOptions): Promise<Engine> {
  const engine = await createEngine(options);
  closeLater(() => engine.close());
  return engine;
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'engine-'));
  return folder;
}

const requestOf = (hits?: number, value = 'alice') => ({
  domain: 'shop',
  descriptors: [{ entries: [{ key: 'user', value }], ...(hits !== undefined && { hits }) }],
});
const codeOf = async (engine: Engine, hits?: number): Promise<string> =>
  (await engine.decide(requestOf(hits), { timeoutMs: 60_000 })).overallCode;

describe('in memory', () => {
  test('decides on the given clock', async () => {
    const clock = fakeClock();
    const text = 'domain: shop\ndescriptors:\n  - key: user\n    rate_limit: { unit: minute, requests_per_unit: 2 }\n';
    const engine = await open({ rules: { text }, clock });
    expect(await codeOf(engine)).toBe('OK');
    expect(await codeOf(engine, 0)).toBe('OK');
    expect(await codeOf(engine)).toBe('OK');
    expect(await engine.decide(requestOf())).toMatchObject({ overallCode: 'OVER_LIMIT', retryAfterMs: 40_000 });
    expect(await codeOf(engine, -2)).toBe('OK'); // refused hits are counted as well
    expect(await codeOf(engine)).toBe('OK');
    clock.advance(40_000);
    expect(await codeOf(engine, 2)).toBe('OK');
  });

  test('answers OK in shadow mode', async () => {
    const engine = await open({ rules: { text: rulesOf(1) }, shadowMode: true });
    expect(await engine.decide(requestOf(2))).toMatchObject({ overallCode: 'OK', shadowed: true });
  });

  test('rejects invalid requests, and all requests after close', async () => {
    const engine = await open({ rules: { text: rulesOf(1) } });
    await expect(engine.decide({ domain: '', descriptors: [] })).rejects.toThrow(InvalidRequest);
    await expect(engine.decide({ domain: 'shop', descriptors: [] })).rejects.toThrow(InvalidRequest);
    const { descriptors } = requestOf();
    const many = { domain: 'shop', descriptors: Array.from({ length: 257 }, () => descriptors).flat() };
    await expect(engine.decide(many)).rejects.toThrow('descriptors must have at most 256 descriptors, got 257');
    await expect(engine.decide(requestOf(0.5))).rejects.toThrow('hits must be an integer, got 0.5');
    await engine.close();
    await engine.close();
    await expect(engine.decide(requestOf())).rejects.toThrow('the engine is closed');
  });

  test('uses the tree of the caller', async () => {
    const other = await open({ rules: { text: rulesOf(1) } });
    let isLoaded = false;
    const engine = await open({ rules: { tree: () => (isLoaded ? other.decider.rules() : undefined) } });
    await expect(engine.decide(requestOf())).rejects.toThrow(RulesNotLoaded);
    isLoaded = true;
    expect(await codeOf(engine, 2)).toBe('OVER_LIMIT');
  });
});

describe('rules', () => {
  test('that are invalid are thrown with all problems, each with its place', async () => {
    const text = 'domain: shop\ndescriptors:\n  - key: user\n    rate_limit: { unit: eon, requests_per_unit: -1 }\n';
    const failure = await createEngine({ rules: { text: [{ name: 'a.yaml', text }] } }).catch((error) => error);
    expect(failure).toBeInstanceOf(InvalidRules);
    expect(failure.problems).toMatchObject([
      { file: 'a.yaml', line: 4, path: 'descriptors[0].rate_limit.requests_per_unit', severity: 'error' },
      { file: 'a.yaml', line: 4, path: 'descriptors[0].rate_limit.unit', severity: 'error' },
    ]);
    expect(failure.message).toMatch(/^a\.yaml:4: .*\na\.yaml:4: descriptors\[0\]\.rate_limit\.unit: invalid /);
  });

  test('that the store cannot count are invalid', async () => {
    const rules = { text: rulesOf(5, ', consistency: leased') };
    await expect(createEngine({ rules })).rejects.toThrow('consistency: leased saves calls to Redis');
  });

  test('that are unreadable are invalid, watched or not', async () => {
    const files = [join(newFolder(), 'missing.yaml')];
    for (const watch of [false, true])
      await expect(createEngine({ rules: { files, watch } })).rejects.toThrow('cannot be read: ENOENT');
  });

  test('are replaced in one step, keep the counters, and stay if the new ones are invalid', async () => {
    const engine = await open({ rules: { text: rulesOf(1) } });
    expect(await codeOf(engine)).toBe('OK');
    await engine.replaceRules({ text: rulesOf(2) });
    expect(await codeOf(engine)).toBe('OK');
    await expect(engine.replaceRules({ text: 'domain: [' })).rejects.toThrow(InvalidRules);
    expect(await codeOf(engine)).toBe('OVER_LIMIT');
  });
});

describe('Redis', () => {
  test.each([['own'], ['reference']] as const)('shares %s keys with a running service', async (kind) => {
    const redis = await startRedis();
    closeLater(() => redis.stop());
    const file = join(newFolder(), 'rules.yaml');
    writeFileSync(file, rulesOf(10));
    const env = { REDIS_URL: redis.url, COUNTER_KEYS: kind, CACHE_KEY_PREFIX: 'p:', RULES_PATH: file };
    const weir = await startWeir(env);
    closeLater(() => weir.stop());
    const client = createClient(`127.0.0.1:${weir.grpcPort}`);
    closeLater(() => client.close());
    const engine = await open({
      rules: { files: [file] },
      store: { redis: `redis://${redis.url}` },
      keys: { kind, prefix: 'p:' },
      startWaitMs: 60_000,
      storeTimeoutMs: 10_000,
    });
    const remainingIn = async () => {
      const [verdict] = (await engine.decide(requestOf(1), { timeoutMs: 60_000 })).verdicts;
      return verdict?.kind === 'limited' ? verdict.decision.limitRemaining : undefined;
    };
    expect(await remainingIn()).toBe(9);
    expect((await client.ask('shop')).statuses[0]).toMatchObject({ limit_remaining: 8 });
    expect(await remainingIn()).toBe(7);
    expect((await client.ask('shop')).statuses[0]).toMatchObject({ limit_remaining: 6 });
  });

  test('that cannot be reached leaves the failure to the policy of each limit, and is reported', async () => {
    const events: StoreEvent[] = [];
    const engine = await open({
      rules: {
        text: `${rulesOf(5, ', on_store_failure: error')}  - key: other\n    rate_limit: { unit: day, requests_per_unit: 5, on_store_failure: allow }\n`,
      },
      store: { redis: `127.0.0.1:${await freePort()}` },
      startWaitMs: 0,
      onStoreEvent: (event) => void events.push(event),
    });
    await expect(engine.decide(requestOf())).rejects.toThrow(CountersUnavailable);
    const other = { domain: 'shop', descriptors: [{ entries: [{ key: 'other', value: 'a' }] }] };
    expect(await engine.decide(other)).toMatchObject({ overallCode: 'OK' });
    expect(engine.health().ready).toBe(false);
    await until('the outage is reported', () => events.some(({ kind }) => kind === 'down'));
  });
});

test.each([
  [{ redis: 'redis://user:secret@host:port' }, 'store.redis: must be host:port'],
  [{ redis: 'localhost', perSecond: 'a,b' }, 'store.perSecond: must be host:port'],
  [{ memcached: ['localhost'] }, "store.memcached: a memcached server must be host:port, got 'localhost'"],
] as const)('a store of %j is an invalid option', async (store, message) => {
  const failure = await createEngine({ rules: { text: rulesOf(1) }, store }).catch((error) => error);
  expect(failure).toBeInstanceOf(InvalidOptions);
  expect(failure.message).toContain(message);
  expect(failure.message).not.toContain('secret');
});

test.each<[unknown, string]>([
  [undefined, 'options: expected an object, got undefined'],
  [{}, 'rules: expected an object with files, text or tree'],
  [{ rules: 'rules.yaml' }, 'rules: expected an object with files, text or tree, got a string'],
  [{ rules: { file: ['rules.yaml'] } }, 'rules.file: no such option; did you mean files?'],
  [{ rules: { watch: true } }, 'rules: expected an object with files, text or tree, got an object'],
  [{ rules: { text: '', watch: 'yes' } }, "rules.watch: expected true or false, got 'yes'"],
  [{ rules: { text: '' }, stroe: 'memory' }, 'stroe: no such option; did you mean store?'],
  [{ rules: { text: '' }, color: 'red' }, 'color: no such option; expected one of rules, '],
  [
    { rules: { text: '' }, store: 'redis' },
    "store: expected 'memory' or an object with redis, memcached or backend, got 'redis'",
  ],
  [{ rules: { text: '' }, store: 'redis://:secret@a:1' }, 'with redis, memcached or backend, got a string'],
  [{ rules: { text: '' }, store: {} }, 'with redis, memcached or backend, got an object'],
  [
    { rules: { text: '' }, store: { redis: 'a:1', persecond: 'a:2' } },
    'store.persecond: no such option; did you mean perSecond?',
  ],
  [{ rules: { text: '' }, store: { redis: 6379 } }, 'store.redis: expected a string or an object with address'],
  [{ rules: { text: '' }, store: { redis: { address: 'a:1' } } }, 'store.redis.address: expected an object with kind'],
  ...['text', 5, [], ['a:1', 2]].map((memcached): [unknown, string] => [
    { rules: { text: '' }, store: { memcached } },
    'store.memcached: expected a list of host:port or an object with srv, refreshMs, got ',
  ]),
  [
    { rules: { text: '' }, store: { memcached: { srv: '_a._tcp.b' } } },
    'store.memcached.refreshMs: expected a number of at least 0',
  ],
  [{ rules: { text: '' }, store: { backend: {} } }, 'store.backend: expected an object with run, health, close'],
  [{ rules: { text: '' }, spend: 'all' }, "spend: expected 'each', 'all_or_nothing' or 'spare_others', got 'all'"],
  [
    { rules: { text: '' }, memory: { maxCounters: '5' } },
    "memory.maxCounters: expected a number of at least 0, got '5'",
  ],
  [{ rules: { text: '' }, clock: 5 }, 'clock: expected a function, got 5'],
])('the options %j are invalid: %s', async (options, message) => {
  const failure = await createEngine(options as EngineOptions).catch((error) => error);
  expect([failure.name, failure.message]).toEqual(['InvalidOptions', expect.stringContaining(message)]);
});

test('rules that replace others are checked like the first', async () => {
  const engine = await createEngine({ rules: { text: rulesOf(1) } });
  await expect(engine.replaceRules({ txt: '' } as never)).rejects.toThrow(
    'rules.txt: no such option; did you mean text?',
  );
  await engine.close();
});

test('reference keys in memory are an invalid option', async () => {
  const options = { rules: { text: rulesOf(1) }, keys: { kind: 'reference' } } as const;
  await expect(createEngine(options)).rejects.toThrow('keys.kind: reference requires Redis or memcached');
});

/** Runs a program that imports the built engine, which has a process to check watched files. */
async function run(program: string, folder: string): Promise<string> {
  const imports = `import { createEngine } from '${join(dirname(MAIN), 'engine.js')}';`;
  writeFileSync(join(folder, 'program.mjs'), `${imports}\n${program}`);
  return (await promisify(execFile)(process.execPath, ['program.mjs'], { cwd: folder })).stdout;
}

test('watched files replace the rules when they change, unless they are invalid', async () => {
  const folder = newFolder();
  writeFileSync(join(folder, 'rules.yaml'), rulesOf(1));
  const printed = await run(
    `import { writeFileSync } from 'node:fs';
    let onLoad = () => {};
    const running = setInterval(() => {}, 1_000); // the engine alone does not keep a process running
    const engine = await createEngine({ rules: { files: ['rules.yaml'], watch: true, onLoad: (loaded) => onLoad(loaded) } });
    const request = ${JSON.stringify(requestOf(2))};
    const print = async () => console.log((await engine.decide(request)).overallCode);
    await print();
    for (const text of ${JSON.stringify(['domain: [', rulesOf(1_000)])}) {
      const loaded = new Promise((resolve) => (onLoad = resolve));
      writeFileSync('rules.yaml', text);
      const { ok, problems } = await loaded;
      console.log(ok, problems?.[0].message);
      await print();
    }
    clearInterval(running);
    await engine.close();`,
    folder,
  );
  expect(printed.split('\n')).toEqual([
    'OVER_LIMIT',
    expect.stringMatching(/^false error loading config file: /),
    'OVER_LIMIT',
    'true undefined',
    'OK',
    '',
  ]);
});

test('a process ends by itself after close, with counters in Redis and remembered refusals', async () => {
  const redis = await startRedis();
  closeLater(() => redis.stop());
  const printed = await run(
    `const engine = await createEngine({
      rules: { text: ${JSON.stringify(rulesOf(1))} },
      store: { redis: '${redis.url}' },
      refusalCacheBytes: 1_000_000,
      startWaitMs: 60_000,
    });
    const request = ${JSON.stringify(requestOf(1))};
    for (let at = 0; at < 2; at++) console.log((await engine.decide(request, { timeoutMs: 60_000 })).overallCode);
    await engine.close();`,
    newFolder(),
  );
  expect(printed).toBe('OK\nOVER_LIMIT\n');
});
