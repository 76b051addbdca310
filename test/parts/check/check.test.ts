import '../../helpers/realm.ts';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check, lineReader } from '../../../src/parts/check/check.ts';
import { formats } from '../../../src/parts/check/formats.ts';

const folder = mkdtempSync(join(tmpdir(), 'check-'));

const limits = (more: string, file = ''): string =>
  `domain: demo\n${file}descriptors:\n  - key: user\n    rate_limit: { unit: day, requests_per_unit: 5, ${more} }\n`;

const IN_FLIGHT =
  'domain: demo\ndescriptors: [{ key: id, not_counted: hold, rate_limit: { algorithm: in_flight, requests_per_unit: 5, ttl: 1m } }]\n';

function checked(text: string, env: Record<string, string> = {}, options: Partial<Parameters<typeof check>[2]> = {}) {
  return check(['-'], env, { mergeDomains: false, strict: false, stdin: text, ...options });
}
const messages = async (...args: Parameters<typeof checked>) =>
  (await checked(...args)).problems.map(({ message }) => message);

const redis = { REDIS_URL: 'localhost:6379' };
const memcached = { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: 'localhost:11211' };

describe('what serve refuses, check refuses', () => {
  test.each<[string, string, Record<string, string>, Partial<Parameters<typeof check>[2]>, string | undefined]>([
    ['a lease in memory', limits('consistency: leased'), {}, {}, 'saves calls to Redis'],
    ['a lease in Redis', limits('consistency: leased'), redis, {}, undefined],
    ['a lease with all_or_nothing', limits('consistency: leased', 'spend: all_or_nothing\n'), redis, {}, 'with spend'],
    ['a lease with SPEND', limits('consistency: leased'), { ...redis, SPEND: 'all_or_nothing' }, {}, 'with spend'],
    ['a log in memcached', limits('algorithm: sliding_window_log'), memcached, {}, 'cannot be counted in memcached'],
    ['requests in flight in memcached', IN_FLIGHT, memcached, {}, 'in_flight cannot be counted in memcached'],
    ['requests in flight in Redis', IN_FLIGHT, redis, {}, undefined],
    ['a set in memcached', limits('name: x', 'spend: all_or_nothing\n'), memcached, {}, 'which memcached cannot do'],
    ['SPEND with memcached', limits('name: x'), { ...memcached, SPEND: 'all_or_nothing' }, {}, 'SPEND: all_or_nothing'],
    ['workers in memory', limits('name: x'), { WORKERS: '2' }, {}, 'WORKERS: 2 is not possible'],
    ['a wrong setting', limits('name: x'), { GRPC_PORT: 'http' }, {}, 'GRPC_PORT must be a port'],
    [
      'a log, with --backend memcached',
      limits('algorithm: sliding_window_log'),
      {},
      { backend: 'memcached' },
      'memcached',
    ],
    ['a lease, with --backend redis', limits('consistency: leased'), {}, { backend: 'redis' }, undefined],
    ['a lease, with --backend memory', limits('consistency: leased'), redis, { backend: 'memory' }, 'memory'],
  ])('%s', async (_, text, env, options, message) => {
    const { isValid, problems } = await checked(text, env, options);
    expect({ isValid, message: problems.find(({ severity }) => severity === 'error')?.message }).toEqual({
      isValid: message === undefined,
      message: message === undefined ? undefined : expect.stringContaining(message),
    });
  });

  test('without a path, check uses the files named by the environment', async () => {
    const path = join(folder, 'rules.yaml');
    writeFileSync(path, limits('name: x'));
    const options = { mergeDomains: false, strict: false };
    expect(await check([], { RULES_PATH: path }, options)).toMatchObject({
      isValid: true,
      counts: { domains: 1, rules: 1 },
    });
    const { problems } = await check([], { CONFIG_TYPE: 'GRPC_XDS_SOTW' }, options);
    expect(problems[0]?.message).toContain('rules come from a control plane');
  });

  test('a mistyped variable is a warning, which --strict treats as an error', async () => {
    expect(await messages(limits('name: x'), { RULE_PATH: 'x' })).toEqual([
      'RULE_PATH is set, but there is no such setting; did you mean RULES_PATH?',
    ]);
    expect((await checked(limits('name: x'), { RULE_PATH: 'x' }, { strict: true })).isValid).toBe(false);
  });
});

describe('formats', () => {
  const TEXT =
    "domain: demo\ndescriptors:\n  - key: user\n    ratelimit: { unit: day }\n  - key: '50%'\n    rate_limit: {}\n";
  const formatted = async (format: keyof typeof formats, text = TEXT) =>
    formats[format](await checked(text), { version: '1.2.3', lineOf: lineReader(text), cwd: folder });

  test('text shows the line and a caret under the beginning', async () => {
    expect((await formatted('text')).split('\n').slice(0, 3)).toEqual([
      "stdin:4:5: descriptors[0].ratelimit: config error, unknown key 'ratelimit'; did you mean 'rate_limit'?",
      '    4 |     ratelimit: { unit: day }',
      '      |     ^',
    ]);
  });

  test('json has all properties of each problem', async () => {
    const parsed = JSON.parse(await formatted('json'));
    expect(parsed).toMatchObject({ ok: false, summary: { errors: 2, warnings: 0 }, notes: [] });
    expect(parsed.problems[0]).toMatchObject({ file: 'stdin', line: 4, column: 5, severity: 'error' });
  });

  test('github writes workflow commands, escaped', () => {
    const wrong = { file: 'a,b.yaml', line: 1, column: 2, path: 'x', severity: 'error', message: '50%\nmore' } as const;
    const all = { isValid: false, problems: [wrong], notes: [], counts: undefined };
    expect(formats.github(all, { version: '1', lineOf: () => undefined, cwd: '/' })).toBe(
      '::error file=a%2Cb.yaml,line=1,col=2,title=weir check::x: 50%25%0Amore',
    );
  });

  /**
   * The rules of SARIF 2.1.0 for the written properties. @see
   * https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
   */
  test('sarif keeps to the rules of SARIF 2.1.0', async () => {
    const log = JSON.parse(await formatted('sarif'));
    expect(log).toMatchObject({ version: '2.1.0', $schema: expect.stringContaining('sarif-2.1.0') });
    expect(log.runs).toHaveLength(1);
    const [{ tool, results, columnKind }] = log.runs;
    expect(columnKind).toBe('utf16CodeUnits');
    expect(tool.driver.name).toMatch(/./);
    expect(tool.driver.semanticVersion).toBe('1.2.3');
    const ids = tool.driver.rules.map(({ id }: { id: string }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(results).toHaveLength(2);
    for (const result of results) {
      expect(ids[result.ruleIndex]).toBe(result.ruleId);
      expect(['error', 'warning', 'note', 'none']).toContain(result.level);
      expect(result.message.text).toMatch(/./);
      const [{ physicalLocation }] = result.locations;
      expect(() => new URL(physicalLocation.artifactLocation.uri, 'file:///')).not.toThrow();
      expect(physicalLocation.region.startLine).toBeGreaterThanOrEqual(1);
      expect(physicalLocation.region.startColumn).toBeGreaterThanOrEqual(1);
    }
  });

  test('paths are relative to the working directory, and encoded in URIs', async () => {
    const path = join(folder, 'my rules.yaml');
    writeFileSync(path, TEXT);
    const found = await check([path], {}, { mergeDomains: false, strict: false });
    const context = { version: '1', lineOf: lineReader(undefined), cwd: folder };
    expect(formats.github(found, context)).toContain('::error file=my rules.yaml,line=4');
    const [result] = JSON.parse(formats.sarif(found, context)).runs[0].results;
    expect(result.locations[0].physicalLocation.artifactLocation.uri).toBe('my%20rules.yaml');
  });
});
