import { type Environment, InvalidSettings, readSettings, settingsTable } from '../src/settings.ts';

/** What is wrong with an environment, a text a variable. */
function problems(env: Environment): readonly string[] {
  try {
    readSettings(env);
  } catch (error) {
    if (error instanceof InvalidSettings) return error.problems;
    throw error;
  }
  return [];
}

test('without an environment everything has its default', () => {
  expect(readSettings({})).toEqual({
    GRPC_HOST: '0.0.0.0',
    GRPC_PORT: 8081,
    HOST: '0.0.0.0',
    PORT: 8080,
    DEBUG_HOST: '0.0.0.0',
    DEBUG_PORT: 6070,
    LOG_LEVEL: 'warn',
    LOG_FORMAT: 'text',
    RULES_PATH: 'config/rules.yaml',
    RUNTIME_ROOT: undefined,
    RUNTIME_SUBDIRECTORY: undefined,
    RUNTIME_APPDIRECTORY: 'config',
    RUNTIME_IGNOREDOTFILES: false,
    RUNTIME_WATCH_ROOT: true,
    MERGE_DOMAIN_CONFIG: false,
    BACKEND_TYPE: undefined,
    REDIS_TYPE: 'SINGLE',
    REDIS_URL: undefined,
    REDIS_SOCKET_TYPE: undefined,
    CACHE_KEY_PREFIX: '',
    STORE_TIMEOUT: 500,
    MEMORY_MAX_COUNTERS: 1_000_000,
    LIMIT_RESPONSE_HEADERS_ENABLED: false,
    LIMIT_LIMIT_HEADER: 'RateLimit-Limit',
    LIMIT_REMAINING_HEADER: 'RateLimit-Remaining',
    LIMIT_RESET_HEADER: 'RateLimit-Reset',
    LIMIT_SOFT_HEADER: 'X-RateLimit-Soft-Exceeded',
    SHADOW_MODE: false,
    QUOTA_MODE: false,
    SPEND: undefined,
    STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: false,
    NEAR_LIMIT_RATIO: 0.8,
    DRAIN_TIMEOUT: 10_000,
    rules: { path: 'config/rules.yaml' },
    redis: undefined,
    spend: 'each',
    warnings: [],
  });
});

test('the table for documentation names every variable, with its default as it would be written', () => {
  expect(settingsTable.map(({ name }) => name)).toEqual(
    Object.keys(readSettings({})).filter((name) => name === name.toUpperCase()),
  );
  const written = settingsTable.flatMap(({ name, fallback }) => (fallback === undefined ? [] : [[name, fallback]]));
  expect(readSettings(Object.fromEntries(written))).toEqual(readSettings({}));
  expect(settingsTable.filter(({ meaning }) => meaning === '')).toEqual([]);
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
    ['GRPC_PORT', '0b11', 3],
    ['MEMORY_MAX_COUNTERS', '16000000', 16_000_000],
    ['LOG_LEVEL', 'DEBUG', 'debug'],
    ['LOG_LEVEL', 'Warn', 'warn'],
    ['LOG_FORMAT', 'JSON', 'json'],
    ['REDIS_TYPE', 'single', 'SINGLE'],
    ['REDIS_SOCKET_TYPE', 'TCP', 'tcp'],
    ['SPEND', 'All_Or_Nothing', 'all_or_nothing'],
    ['LIMIT_SOFT_HEADER', 'x-soft', 'x-soft'],
    ['NEAR_LIMIT_RATIO', '0', 0],
    ['NEAR_LIMIT_RATIO', '1', 1],
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
    expect(readSettings({ [name]: written })).toHaveProperty(name, value);
  });

  test.each([
    ['SHADOW_MODE', ['yes', 'on', 'tRUE', '2', ' true', ''], 'true or false'],
    [
      'GRPC_PORT',
      ['http', '-1', '65536', '8080.0', '1e3', '80 ', '0x', '8_080', 'Infinity', ''],
      'a port from 0 to 65535',
    ],
    ['MEMORY_MAX_COUNTERS', ['0', '16000001', 'many', ''], 'a count from 1 to 16000000'],
    [
      'STORE_TIMEOUT',
      ['5', '-5s', '5 s', '1d', '5S', '1h 30m', 's', '1.2.3s', '1e3s', ''],
      'a duration such as 150ms, 10s or 1h30m',
    ],
    ['NEAR_LIMIT_RATIO', ['1.1', '-0.1', '80%', 'NaN', ' ', ''], 'a number from 0 to 1'],
    ['LOG_LEVEL', ['loud', ''], 'one of trace, debug, info, warn, error, fatal'],
    ['LOG_FORMAT', ['xml', ''], 'one of text, json'],
    ['BACKEND_TYPE', ['memcache'], 'one of redis, memory'],
    ['REDIS_TYPE', ['SENTINEL', 'CLUSTER', ''], 'one of SINGLE'],
    ['REDIS_SOCKET_TYPE', ['udp', ''], 'one of unix, tcp'],
    ['SPEND', ['nothing', 'all', ''], 'one of each, all_or_nothing, spare_others'],
    ['STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT', ['yes', ''], 'true or false'],
  ])('%s is none of %j', (name, wrong, wanted) => {
    expect(wrong.map((written) => problems({ [name]: written }))).toEqual(
      wrong.map((written) => [`${name} must be ${wanted}, got '${written}'`]),
    );
  });

  test('that are wrong are all told at once', () => {
    const env = {
      GRPC_PORT: 'http',
      SHADOW_MODE: 'maybe',
      DRAIN_TIMEOUT: '10',
      LOG_LEVEL: 'info',
      BACKEND_TYPE: 'disk',
    };
    const all = [
      "GRPC_PORT must be a port from 0 to 65535, got 'http'",
      "BACKEND_TYPE must be one of redis, memory, got 'disk'",
      "SHADOW_MODE must be true or false, got 'maybe'",
      "DRAIN_TIMEOUT must be a duration such as 150ms, 10s or 1h30m, got '10'",
    ];
    expect(problems(env)).toEqual(all);
    expect(() => readSettings(env)).toThrow(new InvalidSettings(all));
  });

  // A timer of Node's that is set to more than 2^31 - 1 ms goes off at once.
  test.each(['STORE_TIMEOUT', 'DRAIN_TIMEOUT'])('%s is no longer than a timer can be', (name) => {
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
  [{ STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: 'true', SPEND: 'each' }, 'each'], // what is said in Weir's own words counts
  [{ STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: '1', SPEND: 'all_or_nothing' }, 'all_or_nothing'],
])('what a refused request spends, with %j: %s', (env, spend) => {
  expect(readSettings(env)).toMatchObject({ spend, warnings: [] });
});

describe('where rules come from', () => {
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
    expect(readSettings(env).rules).toEqual(rules);
  });
});

describe('where counters live', () => {
  const tcp = { kind: 'tcp', host: 'redis', port: 6379, tls: false, database: 0 };

  test.each<[Environment, object | undefined]>([
    [{ BACKEND_TYPE: 'memory' }, undefined],
    [{ BACKEND_TYPE: 'memory', REDIS_URL: 'redis:6379' }, undefined],
    [{ BACKEND_TYPE: 'Redis', REDIS_URL: 'redis:6379' }, tcp],
    [{ REDIS_URL: 'redis:6379' }, tcp],
    [{ BACKEND_TYPE: '', REDIS_URL: 'redis:6379' }, tcp], // the service this replaces takes it for redis
    [{ REDIS_URL: 'redis' }, tcp],
    [{ REDIS_URL: 'redis://redis' }, tcp],
    [{ REDIS_URL: 'redis://redis:6379/' }, tcp],
    [
      { REDIS_URL: 'redis:6380', REDIS_SOCKET_TYPE: 'tcp' },
      { ...tcp, port: 6380 },
    ],
    [{ REDIS_URL: 'redis://10.0.0.7:6380/3' }, { ...tcp, host: '10.0.0.7', port: 6380, database: 3 }],
    [{ REDIS_URL: 'rediss://redis.example.com:6380' }, { ...tcp, host: 'redis.example.com', port: 6380, tls: true }],
    [{ REDIS_URL: 'my_redis:6379' }, { ...tcp, host: 'my_redis' }],
    [{ REDIS_URL: '[::1]:6380' }, { ...tcp, host: '::1', port: 6380 }],
    [{ REDIS_URL: 'redis://[fd00::7]/1' }, { ...tcp, host: 'fd00::7', database: 1 }],
    [{ REDIS_URL: 'redis://weir:secret@redis:6379' }, { ...tcp, username: 'weir', password: 'secret' }],
    [{ REDIS_URL: 'redis://:secret@redis:6379' }, { ...tcp, password: 'secret' }],
    [{ REDIS_URL: 'redis://we%40ir:p%3A%2F%25%40@redis' }, { ...tcp, username: 'we@ir', password: 'p:/%@' }],
    [{ REDIS_URL: '/run/redis.sock' }, { kind: 'unix', path: '/run/redis.sock' }],
    [
      { REDIS_URL: '/run/redis.sock', REDIS_SOCKET_TYPE: 'unix' },
      { kind: 'unix', path: '/run/redis.sock' },
    ],
    [
      { REDIS_URL: 'redis.sock', REDIS_SOCKET_TYPE: 'unix' },
      { kind: 'unix', path: 'redis.sock' },
    ],
  ])('with %j', (env, address) => {
    expect(readSettings(env).redis).toEqual(address);
  });

  test.each([
    ['', "''"],
    ['redis:port', "'redis:port'"],
    ['redis:65536', "'redis:65536'"],
    ['redis://', "'redis://'"],
    ['redis://redis:6379/zero', "'redis://redis:6379/zero'"],
    ['redis://redis:6379/0/1', "'redis://redis:6379/0/1'"],
    ['a:6379,b:6379', "'a:6379,b:6379'"],
    ['unix:///run/redis.sock', "'unix:///run/redis.sock'"],
    ['two words', "'two words'"],
    ['redis://weir:secret@redis:6379/zero', "'redis://***@redis:6379/zero'"],
  ])('REDIS_URL cannot be %j', (url, shown) => {
    expect(problems({ REDIS_URL: url })).toEqual([
      `REDIS_URL must be host:port or redis://[user:password@]host:port[/database], got ${shown}`,
    ]);
  });

  test('REDIS_URL is no path where a TCP address is wanted, and must be there for Redis', () => {
    expect(problems({ REDIS_URL: '/run/redis.sock', REDIS_SOCKET_TYPE: 'tcp' })).toHaveLength(1);
    expect(problems({ BACKEND_TYPE: 'redis' })).toEqual([
      'REDIS_URL must be set where BACKEND_TYPE is redis, got nothing',
    ]);
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
  ])('what is wrong with %j is told without its credentials', (url) => {
    expect(problems({ REDIS_URL: url })).toEqual([expect.stringMatching(/^REDIS_URL must be /)]);
    expect(problems({ REDIS_URL: url }).join()).not.toContain('secret');
  });
});

describe('a variable of the service this replaces', () => {
  /** All that it reads, but for those that have a row in the table. */
  const reference = `
    GRPC_UDS GRPC_MAX_CONNECTION_AGE GRPC_MAX_CONNECTION_AGE_GRACE GRPC_SERVER_USE_TLS GRPC_SERVER_TLS_CERT
    GRPC_SERVER_TLS_KEY GRPC_CLIENT_TLS_CACERT GRPC_CLIENT_TLS_SAN HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED
    CONFIG_TYPE FORCE_START_WITHOUT_INITIAL_CONFIG CONFIG_GRPC_XDS_NODE_ID CONFIG_GRPC_XDS_NODE_METADATA
    CONFIG_GRPC_XDS_SERVER_URL CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS
    CONFIG_GRPC_XDS_SERVER_USE_TLS CONFIG_GRPC_XDS_CLIENT_TLS_CERT CONFIG_GRPC_XDS_CLIENT_TLS_KEY
    CONFIG_GRPC_XDS_SERVER_TLS_CACERT CONFIG_GRPC_XDS_SERVER_TLS_SAN XDS_CLIENT_BACKOFF_INITIAL_INTERVAL
    XDS_CLIENT_BACKOFF_MAX_INTERVAL XDS_CLIENT_BACKOFF_RANDOM_FACTOR XDS_CLIENT_BACKOFF_JITTER
    XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES EXPIRATION_JITTER_MAX_SECONDS LOCAL_CACHE_SIZE_IN_BYTES
    STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT RESPONSE_DYNAMIC_METADATA REDIS_PERSECOND REDIS_PERSECOND_SOCKET_TYPE
    REDIS_PERSECOND_TYPE REDIS_PERSECOND_URL REDIS_PERSECOND_POOL_SIZE REDIS_PERSECOND_AUTH REDIS_PERSECOND_SENTINEL_AUTH
    REDIS_PERSECOND_TLS REDIS_PERSECOND_PIPELINE_WINDOW REDIS_PERSECOND_PIPELINE_LIMIT
    REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM REDIS_PERSECOND_TIMEOUT REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR
    REDIS_POOL_SIZE REDIS_AUTH REDIS_SENTINEL_AUTH REDIS_TLS REDIS_TLS_CLIENT_CERT REDIS_TLS_CLIENT_KEY REDIS_TLS_CACERT
    REDIS_TLS_SKIP_HOSTNAME_VERIFICATION REDIS_PIPELINE_WINDOW REDIS_PIPELINE_LIMIT REDIS_CLUSTER_PIPELINE_PARALLELISM
    REDIS_TIMEOUT REDIS_POOL_ON_EMPTY_BEHAVIOR REDIS_HEALTH_CHECK_ACTIVE_CONNECTION REDIS_STARTUP_INITIAL_INTERVAL
    REDIS_STARTUP_MAX_INTERVAL REDIS_STARTUP_MAX_ELAPSED_TIME MEMCACHE_HOST_PORT MEMCACHE_SRV MEMCACHE_SRV_REFRESH
    MEMCACHE_MAX_IDLE_CONNS MEMCACHE_TLS MEMCACHE_TLS_CLIENT_CERT MEMCACHE_TLS_CLIENT_KEY MEMCACHE_TLS_CACERT
    MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION DISABLE_STATS USE_STATSD STATSD_HOST STATSD_PORT STATSD_PROTOCOL
    USE_DOG_STATSD USE_DOG_STATSD_MOGRIFIERS DOG_STATSD_MOGRIFIER_TAG_PATTERN USE_PROMETHEUS PROMETHEUS_ADDR
    PROMETHEUS_PATH PROMETHEUS_MAPPER_YAML PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS STATS_FLUSH_INTERVAL EXTRA_TAGS
    TRACING_ENABLED TRACING_SERVICE_NAME TRACING_SERVICE_NAMESPACE TRACING_SERVICE_INSTANCE_ID
    TRACING_EXPORTER_PROTOCOL TRACING_SAMPLING_RATE`
    .trim()
    .split(/\s+/)
    .filter((name) => !settingsTable.some((row) => row.name === name));

  test.each(reference)('that has no effect yet is warned of: %s', (name) => {
    expect(readSettings({ [name]: 'any' }).warnings).toEqual([
      `${name} is set but has no effect: Weir does not have this setting of envoyproxy/ratelimit yet`,
    ]);
  });

  test('is not what others have set, nor what has an effect', () => {
    const env = {
      PATH: '/bin',
      HOME: '/',
      TLS: '1',
      MY_REDIS_TLS: '1',
      REDIS: 'x',
      STATS: 'x',
      OTEL_SERVICE_NAME: 'x',
      REDIS_URL: 'redis:1',
    };
    expect(readSettings(env).warnings).toEqual([]);
  });
});

test.each(['LIMIT_LIMIT_HEADER', 'LIMIT_REMAINING_HEADER', 'LIMIT_RESET_HEADER', 'LIMIT_SOFT_HEADER'])(
  '%s must be the name of a header',
  (name) => {
    expect(readSettings({ [name]: 'X-Limit_1' })).toHaveProperty(name, 'X-Limit_1');
    expect(() => readSettings({ [name]: 'a b:c' })).toThrow(
      `${name} must be the name of a header such as RateLimit-Limit, got 'a b:c'`,
    );
  },
);
