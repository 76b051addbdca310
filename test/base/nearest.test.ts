import { nearest } from '../../src/base/nearest.ts';
import { nearMisses } from '../../src/settings/near-misses.ts';
import { settingsTable } from '../../src/settings/table.ts';

test.each([
  ['ratelimit', ['rate_limit', 'rate_limits'], 'rate_limit'],
  ['requestsPerUnit', ['unit', 'requests_per_unit'], 'requests_per_unit'],
  ['secnd', ['second', 'minute'], 'second'],
  ['min', ['second', 'minute', 'month'], 'minute'],
  ['m', ['second', 'minute', 'month'], undefined],
  ['chek', ['serve', 'check', 'ask', 'test'], 'check'],
  ['tokenbucket', ['token_bucket', 'leaky_bucket'], 'token_bucket'],
  ['colour', ['unit', 'name'], undefined],
  ['', ['unit'], undefined],
])('%s of %j means %s', (written, names, meant) => {
  expect(nearest(written, names)).toBe(meant);
});

describe('variables with almost the name of a setting', () => {
  const settings = Object.values(settingsTable).flatMap((rows) => Object.keys(rows));
  const meant = (env: Record<string, string>) => nearMisses(env, settings).map((text) => text.split(/[ ?]/).at(-2));

  test.each([
    ['RULE_PATH', 'RULES_PATH'],
    ['REDIS_URl', 'REDIS_URL'],
    ['LOGLEVEL', 'LOG_LEVEL'],
    ['MEMCACHED_HOST_PORT', 'MEMCACHE_HOST_PORT'],
    ['WORKER', 'WORKERS'],
    ['REDIS_PERSECONT_URLS', 'REDIS_PERSECOND_URL'],
    ['RESPONSE_HEADERS_ENABLED', 'LIMIT_RESPONSE_HEADERS_ENABLED'],
    ['REDIS_SENTINEL_PASSWORD', 'REDIS_SENTINEL_AUTH'],
    ['REDIS_HOST', 'REDIS_URL'],
    ['HTTP_PORT', 'PORT'],
    ['RULES', 'RULES_PATH'],
    ['RULES_FILE', 'RULES_PATH'],
    ['PROMETHEUS_ENABLED', 'USE_PROMETHEUS'],
  ])('%s is %s', (written, name) => {
    expect(meant({ [written]: 'x' })).toEqual([name]);
    expect(meant({ [written]: 'x', [name]: 'x' })).toEqual([]); // no suggestion for a name that is set
  });

  test('names of other programs get no suggestions', () => {
    const others = [
      'PATH',
      'HOME',
      'HOSTNAME',
      'PWD',
      'TZ',
      'LANG',
      'NODE_ENV',
      'PORTS',
      'REDIS_PORT',
      'KUBERNETES_PORT',
      'REDIS_SERVICE_HOST',
      'REDIS_PORT_6379_TCP_ADDR',
      'WEIR_SERVICE_PORT_GRPC',
      'HTTP_PROXY',
      'LOG_FILE',
      'POSTGRES_PASSWORD',
    ];
    expect(meant(Object.fromEntries(others.map((name) => [name, 'x'])))).toEqual([]);
  });
});
