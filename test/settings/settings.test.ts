import { availableParallelism } from 'node:os';
import { RE2JS } from 're2js';
import type { Environment } from '../../src/settings/near-misses.ts';
import { readSettings } from '../../src/settings/settings.ts';
import { settingsTable } from '../../src/settings/table.ts';
import { InvalidSettings, readValues } from '../../src/settings/values.ts';

/** The problems of an environment, a text for each variable. */
function problems(env: Environment): readonly string[] {
  try {
    readValues(env, (written) => RE2JS.compile(written));
  } catch (error) {
    if (error instanceof InvalidSettings) return error.problems;
    throw error;
  }
  return [];
}

const rows = Object.values(settingsTable).flatMap((group) => Object.entries(group));

test('an empty environment means the defaults: counters in memory, rules from a file', () => {
  expect(readValues({})).toMatchObject({
    GRPC_PORT: 8081,
    PORT: 8080,
    DEBUG_PORT: 6070,
    LOG_LEVEL: 'warn',
    rules: { path: 'config/rules.yaml' },
    store: { kind: 'memory' },
    sink: { kind: 'statsd' },
    spend: 'each',
    warnings: [],
  });
});

test('the table for documentation has every variable, with its default as text', () => {
  const names = rows.map(([name]) => name);
  expect(names).toEqual(Object.keys(readValues({})).filter((name) => name === name.toUpperCase()));
  const written = rows.flatMap(([name, { fallback }]) => (fallback === undefined ? [] : [[name, fallback]]));
  expect(readValues(Object.fromEntries(written))).toEqual(readValues({}));
  expect(rows.filter(([, { meaning }]) => meaning === '')).toEqual([]);
});

test.each<[Environment, boolean]>([
  [{}, false],
  [{ USE_STATSD: 'true' }, true],
  [{ STATSD_HOST: 'statsd' }, true],
  [{ STATSD_PORT: '9125' }, true],
])('with %j, losing StatsD is an error: %s', async (env, isExplicit) => {
  expect((await readSettings(env)).sink).toMatchObject({ kind: 'statsd', isExplicit });
});

describe('values', () => {
  test.each<[string, string, unknown]>([
    ['GRPC_HOST', '::', '::'],
    ['CACHE_KEY_PREFIX', 'weir:', 'weir:'],
    ['CACHE_KEY_PREFIX', '', ''],
    ['GRPC_PORT', '0', 0],
    ['GRPC_PORT', '65535', 65_535],
    ['GRPC_PORT', '+80', 80],
    ['GRPC_PORT', '0x1F90', 8_080],
    ['GRPC_PORT', '0o17', 15],
    ['GRPC_PORT', '010', 8],
    ['GRPC_PORT', '8_081', 8_081],
    ['GRPC_PORT', '0b11', 3],
    ['MEMORY_MAX_COUNTERS', '16000000', 16_000_000],
    ['MEMORY_MAX_BYTES', '1048576', 1_048_576],
    ['LOG_LEVEL', 'DEBUG', 'debug'],
    ['LOG_LEVEL', 'Warn', 'warn'],
    ['LOG_LEVEL', 'WARNING', 'warn'],
    ['LOG_LEVEL', 'panic', 'fatal'],
    ['LOG_FORMAT', 'JSON', 'json'],
    ['REDIS_TYPE', 'single', 'SINGLE'],
    ['REDIS_SOCKET_TYPE', 'TCP', 'tcp'],
    ['SPEND', 'All_Or_Nothing', 'all_or_nothing'],
    ['LIMIT_SOFT_HEADER', 'x-soft', 'x-soft'],
    ['LIMIT_MAX_WAIT', '1h', 3_600_000],
    ['NEAR_LIMIT_RATIO', '0', 0],
    ['NEAR_LIMIT_RATIO', '1', 1],
    ['NEAR_LIMIT_RATIO', '1.5', 1],
    ['TRACING_SAMPLING_RATE', '2', 1],
    ['SITE_PORT', 'tcp://10.96.0.7:8091', 8_091],
    ['NEAR_LIMIT_RATIO', '.29', 0.29],
    ...['1', 't', 'T', 'TRUE', 'true', 'True'].map((written): [string, string, true] => ['SHADOW_MODE', written, true]),
    ...['0', 'f', 'F', 'FALSE', 'false', 'False'].map((written): [string, string, false] => [
      'RUNTIME_WATCH_ROOT',
      written,
      false,
    ]),
    ['STORE_TIMEOUT', '0', 0],
    ['STORE_TIMEOUT', '0s', 0],
    ['STORE_TIMEOUT', '150ms', 150],
    ['STORE_TIMEOUT', '10s', 10_000],
    ['STORE_TIMEOUT', '1.5s', 1_500],
    ['STORE_TIMEOUT', '.5s', 500],
    ['STORE_TIMEOUT', '1m', 60_000],
    ['STORE_TIMEOUT', '1h30m', 5_400_000],
    ['STORE_TIMEOUT', '1m1s1ms', 61_001],
    ['STORE_TIMEOUT', '1500us', 2], // rounded up to whole milliseconds
    ['STORE_TIMEOUT', '1µs', 1],
    ['STORE_TIMEOUT', '1ns', 1],
    ['DRAIN_TIMEOUT', '16.1s', 16_100],
  ])('%s=%s', (name, written, value) => {
    expect(readValues({ [name]: written })).toHaveProperty(name, value);
  });

  test.each([
    ['SHADOW_MODE', ['yes', 'on', 'tRUE', '2', ' true', ''], 'true or false'],
    ['GRPC_PORT', ['http', '-1', '65536', '8080.0', '1e3', '80 ', '0x', 'Infinity', ''], 'a port from 0 to 65535'],
    ['MEMORY_MAX_COUNTERS', ['0', '16000001', 'many', ''], 'a count from 1 to 16000000'],
    ['MEMORY_MAX_BYTES', ['0', '1048575', '1MiB', ''], 'bytes from 1048576 to 1099511627776'],
    [
      'STORE_TIMEOUT',
      ['5', '-5s', '5 s', '1d', '5S', '1h 30m', 's', '1.2.3s', '1e3s', ''],
      'a duration such as 150ms, 10s or 1h30m',
    ],
    ['NEAR_LIMIT_RATIO', ['-0.1', ' 0.5', '0x1', '1e400', '80%', 'NaN', ' ', ''], 'a number from 0 to 1'],
    ['LOG_LEVEL', ['loud', '__proto__', 'constructor', ''], 'one of trace, debug, info, warn, error, fatal'],
    ['LOG_FORMAT', ['xml', ''], 'one of text, json'],
    ['BACKEND_TYPE', ['memcached', 'disk'], 'one of redis, memcache, memory'],
    ['CONFIG_TYPE', ['file', 'grpc_xds_sotw', ''], 'FILE or GRPC_XDS_SOTW, in capitals'],
    ['REDIS_TYPE', ['RING', ''], 'one of SINGLE, SENTINEL, CLUSTER'],
    ['REDIS_POOL_ON_EMPTY_BEHAVIOR', ['CREATE', 'error'], 'WAIT (CREATE and ERROR are not supported)'],
    ['REDIS_CLUSTER_PIPELINE_PARALLELISM', ['-1'], 'a count from 0 to 9007199254740991'],
    ['EXTRA_TAGS', ['a', 'a:b:c', 'a:b,', ',a:b'], 'comma-separated key:value pairs'],
    ['CONFIG_GRPC_XDS_NODE_METADATA', ['a', 'a=b=c', 'a:b'], 'comma-separated key=value pairs'],
    ['PROMETHEUS_ADDR', ['9090', 'host', ':port', ':65536'], 'host:port, or :port for all addresses'],
    ['LIMIT_RETRY_AFTER_HEADERS', ['a b', 'a,,b'], 'comma-separated header names such as Retry-After'],
    ['TRACING_SAMPLING_RATE', ['-1', ''], 'a number from 0 to 1'],
    ['XDS_CLIENT_BACKOFF_RANDOM_FACTOR', ['', 'half'], 'a number'],
    ['REDIS_SOCKET_TYPE', ['udp', ''], 'one of unix, tcp'],
    ['SPEND', ['nothing', 'all', ''], 'one of each, all_or_nothing, spare_others'],
    ['STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT', ['yes', ''], 'true or false'],
    ['ADMIN_IDENTITY_HEADER', ['a b', 'Authorization', 'cookie'], 'the name of a header such as x-auth-request-email'],
  ])('%s cannot be any of %j', (name, wrong, expected) => {
    expect(wrong.map((written) => problems({ [name]: written }))).toEqual(
      wrong.map((written) => [`${name} must be ${expected}, got '${written}'`]),
    );
  });

  test('that are invalid are all reported at once', () => {
    const env = {
      GRPC_PORT: 'http',
      SHADOW_MODE: 'maybe',
      DRAIN_TIMEOUT: '10',
      LOG_LEVEL: 'info',
      BACKEND_TYPE: 'disk',
    };
    const all = [
      "GRPC_PORT must be a port from 0 to 65535, got 'http'",
      "DRAIN_TIMEOUT must be a duration such as 150ms, 10s or 1h30m, got '10'",
      "BACKEND_TYPE must be one of redis, memcache, memory, got 'disk'",
      "SHADOW_MODE must be true or false, got 'maybe'",
    ];
    expect(problems(env)).toEqual(all);
    expect(() => readValues(env)).toThrow(new InvalidSettings(all));
  });

  // A Node timer with more than 2^31 - 1 ms fires at once.
  test.each(['STORE_TIMEOUT', 'DRAIN_TIMEOUT'])('%s cannot exceed the longest delay of a timer', (name) => {
    expect(problems({ [name]: '2147483647ms' })).toEqual([]);
    expect(problems({ [name]: '2147483648ms' })).toEqual([expect.stringContaining(`${name} must be a duration`)]);
    expect(problems({ [name]: `${'9'.repeat(400)}s` })).toEqual([
      expect.stringContaining(`${name} must be a duration`),
    ]);
  });
});

test.each<[Environment, string]>([
  [{}, 'each'],
  [{ SPEND: 'all_or_nothing' }, 'all_or_nothing'],
  [{ SPEND: 'spare_others' }, 'spare_others'],
  [{ STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: 'true' }, 'spare_others'],
  [{ STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: 'false' }, 'each'],
  [{ STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: 'true', SPEND: 'each' }, 'each'], // Weir's own setting takes precedence
  [{ STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: '1', SPEND: 'all_or_nothing' }, 'all_or_nothing'],
])('the spend of a refused request, with %j: %s', (env, spend) => {
  expect(readValues(env)).toMatchObject({ spend, warnings: [] });
});

describe('the source of rules', () => {
  const runtime = {
    root: '/srv/runtime_data/current',
    subdirectory: '',
    appDirectory: 'config',
    ignoreDotFiles: false,
    watchRoot: true,
  };

  test.each<[Environment, object]>([
    [{ RULES_PATH: '/etc/weir' }, { path: '/etc/weir' }],
    [{ RUNTIME_APPDIRECTORY: 'rules' }, { path: 'config/rules.yaml' }],
    [{ RUNTIME_SUBDIRECTORY: 'ratelimit' }, { runtime: { ...runtime, subdirectory: 'ratelimit' } }],
    [{ RUNTIME_ROOT: '/data', RULES_PATH: '/etc/weir' }, { runtime: { ...runtime, root: '/data' } }],
    [
      {
        RUNTIME_ROOT: '/data',
        RUNTIME_SUBDIRECTORY: 'a',
        RUNTIME_APPDIRECTORY: 'b',
        RUNTIME_IGNOREDOTFILES: 'true',
        RUNTIME_WATCH_ROOT: 'false',
      },
      { runtime: { root: '/data', subdirectory: 'a', appDirectory: 'b', ignoreDotFiles: true, watchRoot: false } },
    ],
  ])('with %j', (env, rules) => {
    expect(readValues(env).rules).toEqual(rules);
  });
});

describe('the store of counters', () => {
  const tcp = { kind: 'tcp', host: 'redis', port: 6379, tls: false, database: 0 };

  test.each<[Environment, object | undefined]>([
    [{ BACKEND_TYPE: 'memory' }, undefined],
    [{ BACKEND_TYPE: 'memory', REDIS_URL: 'redis:6379' }, undefined],
    [
      { REDIS_URL: 'redis:6379', REDIS_AUTH: 'weir:a:b' },
      { ...tcp, username: 'weir', password: 'a:b' },
    ],
    [
      { REDIS_URL: 'm,one:1', REDIS_TYPE: 'sentinel' },
      { kind: 'sentinel', master: 'm', sentinels: [{ host: 'one', port: 1 }] },
    ],
    [
      { REDIS_URL: 'one:1', REDIS_TYPE: 'CLUSTER' },
      { kind: 'cluster', nodes: [{ host: 'one', port: 1 }] },
    ],
    [{ BACKEND_TYPE: 'Redis', REDIS_URL: 'redis:6379' }, tcp],
    [{ REDIS_URL: 'redis:6379' }, tcp],
    [{ BACKEND_TYPE: '', REDIS_URL: 'redis:6379' }, tcp], // envoyproxy/ratelimit treats it as redis
    [
      { REDIS_URL: 'redis:6380', REDIS_SOCKET_TYPE: 'tcp' },
      { ...tcp, port: 6380 },
    ],
    [{ REDIS_URL: 'my_redis:6379' }, { ...tcp, host: 'my_redis' }],
    [{ REDIS_URL: 'redis://we%40ir:p%3A%2F%25%40@redis' }, { ...tcp, username: 'we@ir', password: 'p:/%@' }],
    [
      { REDIS_URL: 'redis.sock', REDIS_SOCKET_TYPE: 'unix' },
      { kind: 'unix', path: 'redis.sock', database: 0 },
    ],
  ])('with %j', (env, address) => {
    const { store } = readValues(env);
    expect(store.kind === 'redis' ? store.main.address : undefined).toEqual(address);
  });

  test.each([
    ['redis:port', 'redis:port'],
    ['redis://weir:secret@redis:6379/zero', 'redis://***@redis:6379/zero'],
  ])('REDIS_URL cannot be %j', (url, shown) => {
    expect(problems({ REDIS_URL: url })).toEqual([
      `REDIS_URL must be host:port, redis://[user:password@]host:port[/database], or the path of a socket, got '${shown}'`,
    ]);
  });

  test('each of the two Redis has its own settings', () => {
    const env = {
      REDIS_URL: 'redis:1',
      REDIS_TIMEOUT: '3s',
      REDIS_SENTINEL_AUTH: 'u:p',
      REDIS_PERSECOND: 'true',
      REDIS_PERSECOND_URL: 'm,one:1',
      REDIS_PERSECOND_TYPE: 'SENTINEL',
      REDIS_PERSECOND_TLS: 'true',
      REDIS_PERSECOND_SENTINEL_AUTH: 's3cret',
      REDIS_TLS_CACERT: 'ca.crt',
      REDIS_TLS_CLIENT_CERT: 'weir.crt',
      REDIS_TLS_CLIENT_KEY: 'weir.key',
      REDIS_TLS_SKIP_HOSTNAME_VERIFICATION: 'true',
    };
    const tls = { caFile: 'ca.crt', certFile: 'weir.crt', keyFile: 'weir.key', skipHostnameVerification: true };
    expect(readValues(env).store).toEqual({
      kind: 'redis',
      main: {
        address: { ...tcp, port: 1 },
        tls: undefined,
        sentinelCredentials: { username: 'u', password: 'p' },
        connectTimeoutMs: 3_000,
      },
      perSecond: {
        address: { kind: 'sentinel', master: 'm', sentinels: [{ host: 'one', port: 1 }] },
        tls,
        sentinelCredentials: { password: 's3cret' },
        connectTimeoutMs: 10_000,
      },
    });
  });

  test.each<[Environment, readonly string[]]>([
    [{ BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: 'one:1,two:2' }, []],
    [{ BACKEND_TYPE: 'memcache', MEMCACHE_SRV: '_memcache._tcp.example.com' }, []],
    [
      { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: 'a:1', WORKERS: '2', HASH_KEYS: 'true' },
      ['HASH_KEYS with WORKERS and memcached requires HASH_KEY: workers cannot share a generated key there'],
    ],
    [
      { BACKEND_TYPE: 'memcache' },
      ['one of MEMCACHE_HOST_PORT and MEMCACHE_SRV must be set if BACKEND_TYPE is memcache, got neither'],
    ],
    [
      { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: 'one:1', MEMCACHE_SRV: '_memcache._tcp.example.com' },
      ['one of MEMCACHE_HOST_PORT and MEMCACHE_SRV must be set if BACKEND_TYPE is memcache, got both'],
    ],
    [{ BACKEND_TYPE: 'redis' }, ['REDIS_URL must be set if BACKEND_TYPE is redis, got nothing']],
    [
      { REDIS_URL: 'redis', REDIS_PERSECOND: 'true' },
      ['REDIS_PERSECOND_URL must be set if REDIS_PERSECOND is true, got nothing'],
    ],
    [
      { REDIS_URL: 'u:secret@m', REDIS_TYPE: 'SENTINEL' },
      [
        "REDIS_URL must be the name of the master and at least one sentinel: master,host:port,host:port or master,redis://[user:password@]host:port, got '***@m'",
      ],
    ],
    [
      { REDIS_URL: 'one:x', REDIS_TYPE: 'CLUSTER' },
      ["REDIS_URL must be some of its nodes: host:port,host:port or redis://[user:password@]host:port, got 'one:x'"],
    ],
    [
      { COUNTER_KEYS: 'reference' },
      ['COUNTER_KEYS=reference requires Redis or memcached: counters in memory cannot be shared'],
    ],
  ])('%j: %j', (env, expected) => {
    expect(problems(env)).toEqual(expected);
  });

  test('REDIS_URL cannot be a path if a TCP address is expected', () => {
    expect(problems({ REDIS_URL: '/run/redis.sock', REDIS_SOCKET_TYPE: 'tcp' })).toHaveLength(1);
  });

  test.each([
    'redis://weir:secret@redis:99999',
    'rediss://:secret@redis:x',
    'redis://weir:sec/secret@redis:x',
    'redis://weir:a\nsecret@redis:x',
    'redis://weir:se%cret-secret@redis',
    'weir:secret@redis:99999',
    'secret@redis:99999',
    'redis:/weir:secret@redis',
    'http://weir:secret@redis:6379',
  ])('problems of %j are reported without its credentials', (url) => {
    expect(problems({ REDIS_URL: url })).toEqual([expect.stringMatching(/^REDIS_URL must be /)]);
    expect(problems({ REDIS_URL: url }).join()).not.toContain('secret');
    const ofCandidate = problems({ REDIS_URL: 'redis', CANDIDATE_REDIS_URL: url });
    expect(ofCandidate).toEqual([expect.stringMatching(/^CANDIDATE_REDIS_URL must be /)]);
    expect(ofCandidate.join()).not.toContain('secret');
  });

  test("a candidate's counters may be in a separate Redis, if the others are in Redis", () => {
    const url = { CANDIDATE_REDIS_URL: 'rediss://:secret@other:6380/2' };
    expect(readValues({ ...url, REDIS_URL: 'redis' }).candidateRedis).toEqual({
      address: { ...tcp, host: 'other', port: 6380, database: 2, password: 'secret', tls: true },
      tls: { caFile: '', certFile: '', keyFile: '', skipHostnameVerification: false },
      ...{ sentinelCredentials: {}, connectTimeoutMs: 10_000 },
    });
    expect(readValues({ REDIS_URL: 'redis' }).candidateRedis).toBeUndefined();
    const { candidateRedis, warnings } = readValues(url);
    expect(candidateRedis).toBeUndefined();
    expect(warnings).toEqual(['CANDIDATE_REDIS_URL is set but has no effect: counters are in memory']);
  });
});

describe('the sink of statistics', () => {
  test.each<[Environment, string]>([
    [{}, 'statsd'],
    [{ USE_STATSD: 'true' }, 'statsd'],
    [{ USE_STATSD: 'false' }, 'none'],
    [{ USE_PROMETHEUS: 'true' }, 'prometheus'],
    [{ USE_DOG_STATSD: 'true', USE_STATSD: 'false' }, 'dogstatsd'],
    [{ DISABLE_STATS: 'true', USE_STATSD: 'true', USE_PROMETHEUS: 'true' }, 'none'],
  ])('%j: %s', (env, kind) => {
    expect(readValues(env).sink.kind).toBe(kind);
  });

  test('is at most one sink', () => {
    expect(problems({ USE_STATSD: 'true', USE_PROMETHEUS: 'true' })).toEqual([
      'one of USE_STATSD, USE_DOG_STATSD and USE_PROMETHEUS may be true, got 2 of them',
    ]);
  });

  test('mogrifiers are read with their patterns', () => {
    const env = { USE_DOG_STATSD: 'true', USE_DOG_STATSD_MOGRIFIERS: 'A', DOG_STATSD_MOGRIFIER_A_PATTERN: 'x' };
    expect(problems(env)).toEqual(['DOG_STATSD_MOGRIFIER_A_NAME must be set, since USE_DOG_STATSD_MOGRIFIERS names A']);
    expect(
      readValues({ ...env, DOG_STATSD_MOGRIFIER_A_NAME: 'y' }, (written) => RE2JS.compile(written)).sink,
    ).toMatchObject({
      mogrifiers: [{ label: 'A', name: 'y' }],
    });
  });
});

describe('workers', () => {
  const redis = { REDIS_URL: 'localhost:6379' };

  test('are the configured number, or one per processor', () => {
    expect(readValues({}).WORKERS).toBe(1);
    expect(readValues({ ...redis, WORKERS: '4' }).WORKERS).toBe(4);
    expect(readValues({ ...redis, WORKERS: 'auto' }).WORKERS).toBe(availableParallelism());
    expect(problems({ ...redis, WORKERS: '0' })).toEqual(["WORKERS must be a count from 1 to 1024, or auto, got '0'"]);
  });

  test('cannot share counters in memory', () => {
    const expected = [
      expect.stringMatching(/^WORKERS: 4 is not possible with counters in memory, since each process would/),
    ];
    expect(problems({ WORKERS: '4' })).toEqual(expected);
    expect(problems({ ...redis, BACKEND_TYPE: 'memory', WORKERS: '4' })).toEqual(expected);
    expect(problems({ WORKERS: '1' })).toEqual([]);
  });
});

test('TLS requires a certificate and its key', () => {
  expect(problems({ GRPC_SERVER_USE_TLS: 'true' })).toEqual([
    'GRPC_SERVER_TLS_CERT must be set if GRPC_SERVER_USE_TLS is true, got nothing',
    'GRPC_SERVER_TLS_KEY must be set if GRPC_SERVER_USE_TLS is true, got nothing',
  ]);
});

describe('a setting with a former name', () => {
  test('is read under that name, with a warning', () => {
    const settings = readValues({ MAX_CALLS_UNDER_WAY: '7' });
    expect(settings.MAX_IN_FLIGHT_CALLS).toBe(7);
    expect(settings.warnings).toEqual(['MAX_CALLS_UNDER_WAY is deprecated: use MAX_IN_FLIGHT_CALLS']);
  });

  test('has the value of the new name if both are set', () => {
    expect(readValues({ MAX_CALLS_UNDER_WAY: '7', MAX_IN_FLIGHT_CALLS: '8' }).MAX_IN_FLIGHT_CALLS).toBe(8);
  });
});

test.each(['LIMIT_RESPONSE_HEADERS_ENABLED', 'LIMIT_IETF_HEADERS'])('%s without Retry-After is a warning', (name) => {
  const warningsFor = (retryAfter?: string): readonly string[] =>
    readValues({ [name]: 'true', LIMIT_RETRY_AFTER_HEADERS: retryAfter }).warnings;
  const warning = `${name} is true without LIMIT_RETRY_AFTER_HEADERS=Retry-After: most clients will retry too early`;
  expect(warningsFor()).toEqual([warning]);
  expect(warningsFor('X-RateLimit-Retry-After')).toEqual([warning]);
  expect(warningsFor('X-RateLimit-Retry-After,retry-after')).toEqual([]);
  expect(warningsFor('')).toEqual([]);
});

describe('a warning names', () => {
  const withoutEffect = rows.filter(([, { noEffect }]) => noEffect !== undefined).map(([name]) => name);
  const right: Readonly<Record<string, string>> = {
    XDS_CLIENT_BACKOFF_RANDOM_FACTOR: '0.5',
    REDIS_PIPELINE_WINDOW: '75us',
    REDIS_PERSECOND_PIPELINE_WINDOW: '75us',
    REDIS_POOL_ON_EMPTY_BEHAVIOR: 'WAIT',
    REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR: 'wait',
    PROMETHEUS_MAPPER_YAML: '/mapper.yaml',
    OVERLOAD_LAG: '5ms',
  };

  test.each(withoutEffect)('%s, which has no effect in Weir', (name) => {
    const written = right[name] ?? (/INTERVAL|DURATION/.test(name) ? '3s' : '8');
    const { warnings } = readValues({ [name]: written });
    expect(warnings).toEqual([expect.stringMatching(new RegExp(`^${name} is set but has no effect: .+`))]);
  });

  test.each([
    ['REDIS_URL', 'redis:1', { BACKEND_TYPE: 'memory' }, 'memory'],
    ['REDIS_PERSECOND', 'true', {}, 'memory'],
    ['MEMCACHE_HOST_PORT', 'one:1', { REDIS_URL: 'redis:1' }, 'redis'],
    ['MEMCACHE_SRV', '_a._b.c', {}, 'memory'],
    ['LOCAL_CACHE_SIZE_IN_BYTES', '1', {}, 'memory'],
    [
      'STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT',
      'true',
      { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: 'a:1' },
      'memcache',
    ],
  ])('%s, if counters are in another store', (name, written, others: Environment, kind) => {
    expect(readValues({ ...others, [name]: written }).warnings).toEqual([
      `${name} is set but has no effect: counters are in ${kind}`,
    ]);
  });

  test.each<[string, string, Environment, string]>([
    ['REDIS_TLS_CACERT', 'ca.crt', { REDIS_URL: 'redis:1' }, 'REDIS_TLS'],
    ['REDIS_TLS_CLIENT_CERT', 'a.crt', { REDIS_URL: 'rediss://redis:1' }, 'REDIS_TLS_CLIENT_KEY'],
    ['REDIS_TLS_CLIENT_KEY', 'a.key', { REDIS_URL: 'redis:1', REDIS_TLS: 'true' }, 'REDIS_TLS_CLIENT_CERT'],
    ['MEMCACHE_TLS_CACERT', 'ca.crt', { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: 'a:1' }, 'MEMCACHE_TLS'],
    ['REDIS_SENTINEL_AUTH', 's3cret', { REDIS_URL: 'redis:1' }, 'REDIS_TYPE=SENTINEL'],
    ['REDIS_PERSECOND_URL', 'redis:2', { REDIS_URL: 'redis:1' }, 'REDIS_PERSECOND'],
    ['MEMCACHE_SRV_REFRESH', '1m', { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: 'a:1' }, 'MEMCACHE_SRV'],
    ['RUNTIME_APPDIRECTORY', 'rules', {}, 'RUNTIME_ROOT'],
    ['RUNTIME_IGNOREDOTFILES', 'true', {}, 'RUNTIME_ROOT'],
    ['RUNTIME_WATCH_ROOT', 'false', { RULES_PATH: '/etc/weir' }, 'RUNTIME_ROOT'],
  ])('%s without the variable that gives it an effect', (name, written, others, needed) => {
    const warning = `${name} is set but has no effect: ${needed} is not set`;
    expect(readValues({ ...others, [name]: written }).warnings).toEqual([warning]);
  });

  test.each<Environment>([
    { REDIS_URL: 'redis:1', REDIS_TLS: 'false', REDIS_TLS_CACERT: 'ca.crt', REDIS_TLS_CLIENT_CERT: 'a.crt' },
    { REDIS_URL: 'redis:1', REDIS_PERSECOND: 'false', REDIS_PERSECOND_URL: 'redis:2' },
    { REDIS_URL: 'redis:1', REDIS_TLS_CACERT: 'ca.crt', REDIS_PERSECOND: 'true', REDIS_PERSECOND_URL: 'rediss://a:1' },
    { REDIS_URL: 'redis:1', MEMCACHE_SRV_REFRESH: '0', REDIS_TLS_CACERT: '' },
    { RUNTIME_SUBDIRECTORY: 'ratelimit', RUNTIME_WATCH_ROOT: 'false' },
    { RUNTIME_ROOT: '', RUNTIME_IGNOREDOTFILES: 'true' },
    { RUNTIME_WATCH_ROOT: 'true', RUNTIME_APPDIRECTORY: 'config' },
    { CONFIG_TYPE: 'GRPC_XDS_SOTW', RUNTIME_WATCH_ROOT: 'false' },
  ])('%j has no warning: the part is off on purpose, or used', (env) => {
    expect(readValues(env).warnings).toEqual([]);
  });

  test('only variables that are set and have no effect', () => {
    const env = { PATH: '/bin', TLS: '1', MY_REDIS_TLS: '1', REDIS: 'x', OTEL_SERVICE_NAME: 'x', REDIS_URL: 'redis:1' };
    expect(readValues(env).warnings).toEqual([]);
  });
});

test('secrets are not shown, even if they are invalid', () => {
  expect(rows.filter(([, row]) => row.secret).map(([name]) => name)).toEqual([
    ...['REDIS_URL', 'REDIS_AUTH', 'REDIS_SENTINEL_AUTH'],
    ...['REDIS_PERSECOND_URL', 'REDIS_PERSECOND_AUTH', 'REDIS_PERSECOND_SENTINEL_AUTH'],
    ...['ADMIN_TOKEN', 'HASH_KEY', 'PROMETHEUS_URL', 'RECORD_HASH_KEY', 'USAGE_URL'],
    ...['NOTIFY_WEBHOOK_URL', 'NOTIFY_WEBHOOK_SECRET', 'CANDIDATE_REDIS_URL'],
  ]);
});

test('usage is refused where it cannot be counted, and in two places at once', () => {
  const memcached = { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: 'a:1' };
  const redis = { REDIS_URL: 'redis:6379' };
  for (const [env, problem] of [
    [{ ...memcached, USAGE: 'true' }, 'USAGE requires counters in Redis or memory, got BACKEND_TYPE=memcache'],
    [{ ...redis, COUNTER_KEYS: 'reference', USAGE_DIR: 'u' }, "USAGE requires COUNTER_KEYS=own, got 'reference'"],
    [
      { ...redis, REDIS_TYPE: 'CLUSTER', USAGE: 'true' },
      "USAGE requires CLUSTER_HASH_TAG=domain on a Redis Cluster, got 'none'",
    ],
    [
      { USAGE_DIR: 'u', USAGE_URL: 'postgres://db/u' },
      'USAGE_DIR and USAGE_URL are mutually exclusive: remove one of them',
    ],
    [{ USAGE_URL: 'mysql://db/u' }, 'USAGE_URL must be a URL such as postgres://user:password@host:5432/database'],
  ] as const)
    expect(problems(env)).toEqual([expect.stringContaining(problem)]);
});

test('an empty key for hashes is refused, since values would be recorded in plain text', () => {
  expect(() => readValues({ RECORD_HASH_KEY: '' })).toThrow("RECORD_HASH_KEY must be a non-empty text, got '***'");
});

test('the address of Prometheus must be a URL, and its labels must have names', () => {
  expect(() => readValues({ PROMETHEUS_URL: 'prometheus:9090' })).toThrow(
    "PROMETHEUS_URL must be an http or https URL, got '***'",
  );
  expect(() => readValues({ PROMETHEUS_LABELS: 'job=weir,a-b=c' })).toThrow(
    "PROMETHEUS_LABELS must be comma-separated labels such as job=weir,namespace=shop, got 'job=weir,a-b=c'",
  );
  expect(readValues({ PROMETHEUS_LABELS: 'job=weir,namespace=shop' }).PROMETHEUS_LABELS).toEqual(
    new Map([
      ['job', 'weir'],
      ['namespace', 'shop'],
    ]),
  );
});

describe('headers for limits', () => {
  const headersOf = async (env: Record<string, string>) => (await readSettings(env)).answers.headers;
  const own = { limit: 'RateLimit-Limit', remaining: 'RateLimit-Remaining', reset: 'RateLimit-Reset' };
  const x = { limit: 'X-RateLimit-Limit', remaining: 'X-RateLimit-Remaining', reset: 'X-RateLimit-Reset' };
  const enabled = { LIMIT_RESPONSE_HEADERS_ENABLED: 'true' };
  const styled = { LIMIT_HEADER_STYLE: 'x-ratelimit' };

  test.each<[Record<string, string>, object]>([
    [{}, { limits: undefined, retryAfter: [], ietf: false }],
    [enabled, { limits: own, retryAfter: [] }],
    [
      { ...enabled, ...styled },
      { limits: x, retryAfter: ['X-RateLimit-Retry-After'] },
    ],
    [styled, { limits: undefined, retryAfter: [] }],
    [{ ...enabled, ...styled, LIMIT_RESET_HEADER: 'X-Reset' }, { limits: { ...x, reset: 'X-Reset' } }],
    [
      { ...enabled, ...styled, LIMIT_RETRY_AFTER_HEADERS: '' },
      { limits: x, retryAfter: [] },
    ],
    [
      { ...styled, LIMIT_RETRY_AFTER_HEADERS: 'Retry-After' },
      { limits: undefined, retryAfter: ['Retry-After'] },
    ],
    [{ LIMIT_IETF_HEADERS: 'true' }, { limits: undefined, ietf: true, wouldRefuse: '' }],
    [{ LIMIT_WOULD_REFUSE_HEADER: 'X-Would' }, { wouldRefuse: 'X-Would' }],
    [{ LIMIT_IETF_HEADERS: 'true', SHADOW_MODE: 'true' }, { ietf: false }],
  ])('with %j are %j', async (env, expected) => {
    expect(await headersOf(env)).toMatchObject(expected);
  });

  test.each([
    [
      { LIMIT_IETF_HEADERS: 'true', LIMIT_LIMIT_HEADER: 'ratelimit' },
      'LIMIT_LIMIT_HEADER must not be ratelimit, the header of LIMIT_IETF_HEADERS: a client would receive both as one',
    ],
    [
      { LIMIT_REMAINING_HEADER: 'X-Rate', LIMIT_RESET_HEADER: 'x-rate' },
      'LIMIT_RESET_HEADER must not be x-rate, the header of LIMIT_REMAINING_HEADER: a client would receive both as one',
    ],
    [
      { LIMIT_SOFT_HEADER: 'RateLimit-Reset' },
      'LIMIT_SOFT_HEADER must not be RateLimit-Reset, the header of LIMIT_RESET_HEADER: a client would receive both as one',
    ],
    [
      { LIMIT_WOULD_REFUSE_HEADER: 'X-RateLimit-Soft-Exceeded' },
      'LIMIT_WOULD_REFUSE_HEADER must not be X-RateLimit-Soft-Exceeded, the header of LIMIT_SOFT_HEADER: a client would receive both as one',
    ],
    [
      { LIMIT_RETRY_AFTER_HEADERS: 'Retry-After,retry-after' },
      'LIMIT_RETRY_AFTER_HEADERS must list each header once, got retry-after twice',
    ],
  ])('cannot have the same name twice: %j', (env, message) => {
    expect(() => readValues({ LIMIT_RESPONSE_HEADERS_ENABLED: 'true', ...env })).toThrow(message);
  });

  test('may have the same name twice while one is not sent', () => {
    const env = { LIMIT_LIMIT_HEADER: 'RateLimit', LIMIT_RESET_HEADER: 'RateLimit' };
    expect(readValues(env).LIMIT_LIMIT_HEADER).toBe('RateLimit');
  });
});

test.each([
  'LIMIT_LIMIT_HEADER',
  'LIMIT_REMAINING_HEADER',
  'LIMIT_RESET_HEADER',
  'LIMIT_SOFT_HEADER',
  'LIMIT_WOULD_REFUSE_HEADER',
])('%s must be a header name', (name) => {
  expect(readValues({ [name]: 'X-Limit_1' })).toHaveProperty(name, 'X-Limit_1');
  expect(() => readValues({ [name]: 'a b:c' })).toThrow(
    `${name} must be a header name such as RateLimit-Limit, got 'a b:c'`,
  );
});

test('the names of all sites define their group, regardless of which of them this is', async () => {
  const splitOf = async (SITE: string, SITE_PEERS: string) => (await readSettings({ SITE, SITE_PEERS })).counters.split;
  const east = await splitOf('east', 'west=west:8091');
  expect(east).toEqual({ sites: 2, site: 0, group: expect.stringMatching(/^[\w-]{8}$/) });
  expect(await splitOf('west', 'east=east:8091')).toEqual({ ...east, site: 1 });
  const renamed = await splitOf('east', 'best=west:8091'); // now the second
  expect(renamed?.group).not.toBe(east?.group);
});

test('a lost site keeps its index among the sites, and nothing is exchanged with it', async () => {
  const env = { SITE: 'east', SITE_PEERS: 'west=west:8091,north=north:8091' };
  const { counters, sites } = await readSettings({ ...env, SITE_LOST: 'north' });
  expect(counters.split).toEqual({ ...(await readSettings(env)).counters.split, lost: [1] });
  expect(sites).toMatchObject({ names: ['east', 'north', 'west'], peers: [{ site: 'west' }], lost: ['north'] });
  await expect(readSettings({ ...env, SITE_LOST: 'south' })).rejects.toThrow(
    "SITE_LOST must name sites of SITE_PEERS, got 'south'",
  );
});

test('HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED requires rules, also with FORCE_START_WITHOUT_INITIAL_CONFIG', async () => {
  const forced = { FORCE_START_WITHOUT_INITIAL_CONFIG: 'true' };
  expect((await readSettings(forced)).readiness.requiresRules).toBe(false);
  const both = { ...forced, HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED: 'true' };
  expect((await readSettings(both)).readiness.requiresRules).toBe(true);
});

test('EXTRA_TAGS without a name or a value are left out', async () => {
  const { sink } = await readSettings({ EXTRA_TAGS: 'zone:a,empty:,:b' });
  expect([...sink.extraTags]).toEqual([['zone', 'a']]);
});
