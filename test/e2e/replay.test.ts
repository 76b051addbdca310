import { mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import type { WireRequest } from '../../src/edge/wire/wire.ts';
import { createClient } from '../helpers/grpc-client.ts';
import { start } from '../helpers/process.ts';
import { startRedis } from '../helpers/redis.ts';
import { MAIN, startWeir } from '../helpers/weir.ts';

/** Requests to a running service; `REPLAY_LIVE_REQUESTS=1000000` for the long form. */
const REQUESTS = Number(process.env.REPLAY_LIVE_REQUESTS ?? 1_500);
/** The seed of rules and requests. */
const SEED = Number(process.env.REPLAY_SEED ?? 25);
const CONCURRENCY = 32;

const folder = mkdtempSync(join(tmpdir(), 'replay-'));

function file(name: string, content: string | Buffer): string {
  writeFileSync(join(folder, name), content);
  return join(folder, name);
}

/** Runs the command line to its end. */
async function weir(args: readonly string[], input?: string | Buffer) {
  const running = await start(
    'sh',
    ['-c', input ? 'cat "$INPUT" | "$0" "$@"' : '"$0" "$@"', process.execPath, MAIN, ...args],
    {
      env: { PATH: process.env.PATH, ...(input && { INPUT: file('input', input) }) },
      name: 'weir',
    },
  );
  const { code } = await running.exited;
  return { code, output: running.output() };
}

const AT_MS = 1_700_000_040_000; // the start of a minute

/** A line of a recording: a hit of a user, at a time in milliseconds since the start of the minute. */
const lineOf = (user: string, atMs: number, more: object = {}): string =>
  JSON.stringify({
    ...{ domain: 'demo', descriptors: [{ entries: [{ key: 'user', value: user }] }], time: AT_MS + atMs },
    ...more,
  });

const rulesBy = (name: string, requestsPerUnit: number, unit = 'minute'): string =>
  file(
    name,
    `domain: demo\ndescriptors: [{ key: user, rate_limit: { unit: ${unit}, requests_per_unit: ${requestsPerUnit} } }]\n`,
  );

/** Numbers that are the same in each run. */
function randomOf(seed: number) {
  let state = seed;
  const next = (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
  const below = (count: number): number => Math.floor(next() * count);
  const oneOf = <T>(...choices: readonly T[]): T => choices[below(choices.length)] as T; // there is at least one
  return { below, oneOf };
}

const { below, oneOf } = randomOf(SEED);

/** A limit of any algorithm, with a window that ends several times during the test. */
function anyLimit(spend: string): string {
  const common = `window: ${oneOf('300ms', '1s', '2s')}, requests_per_unit: ${1 + below(12)}`;
  const algorithm = oneOf(
    'algorithm: fixed_window',
    'algorithm: fixed_window, alignment: first_hit',
    `algorithm: fixed_window, soft: ${below(4)}`,
    'algorithm: sliding_window_log',
    'algorithm: sliding_window_log, count_denied: true',
    'algorithm: sliding_window_counter',
    'algorithm: sliding_window_buckets, buckets: 5',
    'algorithm: token_bucket',
    'algorithm: token_bucket, burst: 20',
    'algorithm: leaky_bucket, burst: 4',
    'algorithm: leaky_bucket, burst: 2, max_delay: 40ms',
  );
  return `{ ${common}, ${algorithm}${spend === 'each' ? oneOf('', '', ', charge: always') : ''} }`;
}

const domains = ['each', 'all_or_nothing', 'spare_others'];

const rulesOf = (spend: string): string => `
domain: ${spend}
spend: ${spend}
descriptors:
  - { key: user, rate_limit: ${anyLimit(spend)} }
  - { key: user, value: user-1, shadow_mode: true, rate_limit: ${anyLimit(spend)} }
  - { key: path, value: "/a*", rate_limit: ${anyLimit(spend)}, descriptors: [{ key: user, rate_limit: ${anyLimit(spend)} }] }
  - { key: plan, quota_mode: true, rate_limit: ${anyLimit(spend)} }
  - { key: free, rate_limit: { unlimited: true } }
  - key: tenant
    descriptors:
      - { key: id, not_counted: hold, rate_limit: { algorithm: in_flight, requests_per_unit: 3, ttl: 1s } }
  - key: model
    descriptors:
      - key: id
        not_counted: hold
        rate_limit: { unit: minute, requests_per_unit: 200, reserve: { ttl: 1s, estimate: p95 } }
        descriptors: [{ key: used, not_counted: commit }]
`;

function anyDescriptor(): WireRequest['descriptors'][number] {
  const user = { key: 'user', value: `user-${below(12)}` };
  const completion = [
    { key: 'model', value: `m${below(2)}` },
    { key: 'id', value: `r${below(20)}` },
  ];
  const entries = oneOf(
    [user],
    [user],
    [{ key: 'path', value: `/${oneOf('a', 'b')}${below(3)}` }],
    [{ key: 'path', value: '/a1' }, user],
    [{ key: 'plan', value: oneOf('gold', 'silver') }],
    [{ key: 'free', value: 'x' }],
    [{ key: 'nothing', value: 'x' }],
    [
      { key: 'tenant', value: `t${below(3)}` },
      { key: 'id', value: `r${below(40)}` },
    ],
    completion,
    [...completion, { key: 'used', value: 'tokens' }],
  );
  const hits = oneOf(undefined, undefined, undefined, 0, 2, 5);
  const brings = below(20) === 0;
  return {
    entries,
    limit: brings ? { requests_per_unit: below(4), unit: oneOf(1, 2), unit_multiplier: null } : null,
    hits_addend: hits === undefined ? null : { value: hits },
    is_negative_hits: below(12) === 0,
  };
}

test(`a running service records ${REQUESTS} requests, and a replay answers all of them as it did`, async () => {
  const rules = join(folder, 'rules');
  const recordings = join(folder, 'recordings');
  mkdirSync(rules);
  for (const spend of domains) writeFileSync(join(rules, `${spend}.yaml`), rulesOf(spend));
  const service = await startWeir(
    {
      ...{ RECORD_TO: recordings, RECORD_MAX_PER_SECOND: '1000000', ADMIN_TOKEN: 'secret', USE_STATSD: 'false' },
    },
    { args: ['--rules', rules] },
  );
  const override = async (effect: object): Promise<void> => {
    const answer = await fetch(`http://127.0.0.1:${service.debugPort}/api/v1/overrides`, {
      method: 'PUT',
      headers: { authorization: 'Bearer secret', 'content-type': 'application/json' },
      body: JSON.stringify({
        ...{
          domain: 'each',
          descriptor: [{ key: 'user', value: 'user-3' }],
          until: new Date(Date.now() + 3_600_000).toISOString(),
          reason: 'a test',
        },
        ...effect,
      }),
    });
    expect({ status: answer.status, text: await answer.text() }).toMatchObject({ status: 200 });
  };
  const client = createClient(`127.0.0.1:${service.grpcPort}`);
  const codes: Record<number, number> = {};
  let sent = 0;
  const send = async (): Promise<void> => {
    while (sent < REQUESTS) {
      if (++sent === Math.floor(REQUESTS / 3)) await override({ effect: 'block' });
      if (sent === Math.floor(REQUESTS / 2)) await override({ effect: 'limit', requestsPerUnit: 5, unit: 'SECOND' });
      const descriptors = Array.from({ length: 1 + below(3) }, anyDescriptor);
      const { overall_code } = await client.send({ domain: oneOf(...domains), descriptors, hits_addend: below(3) });
      codes[overall_code] = (codes[overall_code] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, send));
  client.close();
  await service.stop();
  const files = readdirSync(recordings).map((name) => join(recordings, name));
  const { code, output } = await weir(['replay', '--rules', rules, '--verify', '--json', ...files]);
  expect(JSON.parse(output)).toMatchObject({
    ...{ requests: REQUESTS, admitted: codes[1], refused: codes[2], warnings: [] },
    recorded: { answers: REQUESTS, same: REQUESTS },
    lines: { broken: 0 },
  });
  expect(code).toBe(0);
  expect(codes[2]).toBeGreaterThan(REQUESTS / 20);
});

describe('weir record', () => {
  test('starts and stops a recording of all workers, with the times of Redis', async () => {
    const redis = await startRedis();
    const recordings = join(folder, 'of-workers');
    const audit = join(folder, 'audit.log');
    const rules = rulesBy('two-a-year.yaml', 2, 'year');
    const service = await startWeir(
      {
        ...{ RECORD_TO: recordings, RECORD_FROM_START: 'false', ADMIN_TOKEN: 'secret', AUDIT_LOG: audit },
        ...{ REDIS_URL: redis.url, WORKERS: '2', USE_STATSD: 'false' },
      },
      { args: ['--rules', rules] },
    );
    const record = (...args: string[]) =>
      weir(['record', '--target', `127.0.0.1:${service.debugPort}`, '--token', 'secret', ...args]);
    const hit = async (user: string): Promise<void> => {
      const clients = Array.from({ length: 8 }, () => createClient(`127.0.0.1:${service.grpcPort}`)); // of both workers
      const descriptors = [
        { entries: [{ key: 'user', value: user }], limit: null, hits_addend: null, is_negative_hits: false },
      ];
      for (const client of clients) {
        await client.send({ domain: 'demo', descriptors, hits_addend: 0 });
        client.close();
      }
    };
    await hit('before');
    expect(await record()).toEqual({ code: 0, output: 'nothing is recorded\n' });
    const refused = await record('--for', '1h');
    expect(refused).toEqual({ code: 1, output: 'weir: --for and --stop require --reason, for the audit log\n' });
    const begun = await record('--for', '1h', '--reason', 'a test');
    expect(begun.output).toMatch(/^requests are recorded until 20\d\d-/);
    await hit('during');
    expect((await record('--stop', '--reason', 'enough')).output).toBe('nothing is recorded\n');
    await hit('after');
    await service.stop();
    const files = readdirSync(recordings).map((name) => join(recordings, name));
    const lines = files.flatMap((path) => gunzipSync(readFileSync(path)).toString().trimEnd().split('\n'));
    const requests = lines.map((line) => JSON.parse(line)).filter(({ domain }) => domain === 'demo');
    expect(requests.map(({ descriptors }) => descriptors[0].entries[0].value)).toEqual(Array(8).fill('during'));
    expect(readFileSync(audit, 'utf8').match(/"change":"recording"/g)).toHaveLength(2);
    const { output } = await weir(['replay', '--rules', rules, '--json', ...files]);
    expect(JSON.parse(output)).toMatchObject({ requests: 8, admitted: 2, refused: 6, recorded: { answers: 8 } });
    await redis.stop();
  });
});

describe('weir replay', () => {
  const log = [
    lineOf('anna', 0),
    lineOf('anna', 10),
    '{"domain": "demo"',
    lineOf('bert', 20),
    lineOf('anna', 30, { label: 'allow' }),
    lineOf('anna', 59_000, { label: 'refuse' }),
    lineOf('anna', 60_000, { label: 'refuse' }),
    '',
  ].join('\n');

  test('reports by rule and key the requests that rules would have refused', async () => {
    const { code, output } = await weir(['replay', '--rules', rulesBy('two.yaml', 2), '--json', file('a.ndjson', log)]);
    expect(code).toBe(0);
    expect(JSON.parse(output)).toMatchObject({
      ...{ requests: 6, admitted: 4, refused: 2, keysHurt: 1, labels: { labelled: 3, wrong: 1, missed: 1 } },
      rules: {
        'demo.user': {
          ...{ requests: 6, admitted: 4, refused: 2, keysHurt: 1 },
          firstRefusal: { key: 'demo user=anna', time: '2023-11-14T22:14:00.030Z' },
          longestLockOut: { key: 'demo user=anna', from: '2023-11-14T22:14:00.030Z', ms: 58_970 },
          peak: { key: 'demo user=anna', hits: 2, windowMs: 60_000, limit: 2 },
          mostRefused: [{ key: 'demo user=anna', refusals: 2 }],
        },
      },
      lines: { read: 7, broken: 1, examples: [expect.stringContaining('a.ndjson:3: not JSON')] },
    });
  });

  test('compares other rules, and fails if they refuse more than permitted', async () => {
    const args = ['replay', '--rules', rulesBy('three.yaml', 3), '--against', rulesBy('one.yaml', 1)];
    const recording = file('a.ndjson', log);
    const { code, output } = await weir([...args, '--json', '--max-newly-refused', '10%', recording]);
    expect(code).toBe(1);
    const failure = 'weir: 2 of 6 requests newly refused, more than 10 %';
    expect(output).toContain(failure);
    expect(JSON.parse(output.slice(0, output.indexOf('weir:')))).toMatchObject({
      ...{ refused: 1, against: { refused: 3 } },
      change: { newlyRefused: 2, newlyAdmitted: 0, keysNewlyHurt: 0, keysNewlySpared: 0 },
    });
    const text = await weir([...args, '--max-newly-refused', '0.4', '--max-newly-hurt', '0', recording]);
    expect(text.code).toBe(0);
    expect(text.output).toContain('newly refused   2 (33.3 %)');
  });

  test('prints the answer to each request, the same for a file, a compressed one and a pipe', async () => {
    const args = ['replay', '--rules', rulesBy('two.yaml', 2), '--answers'];
    const { output } = await weir([...args, file('a.ndjson', log)]);
    expect(
      output
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line)),
    ).toEqual([
      { code: 'OK', descriptors: [{ code: 'OK', remaining: 1 }] },
      { code: 'OK', descriptors: [{ code: 'OK', remaining: 0 }] },
      { code: 'OK', descriptors: [{ code: 'OK', remaining: 1 }] },
      { code: 'OVER_LIMIT', descriptors: [{ code: 'OVER_LIMIT', remaining: 0 }] },
      { code: 'OVER_LIMIT', descriptors: [{ code: 'OVER_LIMIT', remaining: 0 }] },
      { code: 'OK', descriptors: [{ code: 'OK', remaining: 1 }] },
    ]);
    expect(await weir([...args, file('a.ndjson.gz', gzipSync(log))])).toEqual({ code: 0, output });
    expect(await weir(args, log)).toEqual({ code: 0, output });
  });

  test('reads a truncated compressed file up to its end', async () => {
    const whole = gzipSync(Array.from({ length: 5_000 }, (_, at) => lineOf(`user-${at * 7_919}`, at)).join('\n'));
    const cut = file('cut.gz', whole.subarray(0, whole.length - 2_000));
    const { code, output } = await weir(['replay', '--rules', rulesBy('two.yaml', 2), cut]);
    expect(code).toBe(0);
    expect(output).toMatch(/warning: \S+cut\.gz is cut off: unexpected end of file/);
  });

  test('reorders requests within --reorder, and counts later ones', async () => {
    const late = file(
      'late.ndjson',
      [lineOf('a', 500), lineOf('a', 100), lineOf('a', 9_000), lineOf('a', 200)].join('\n'),
    );
    const { output } = await weir(['replay', '--rules', rulesBy('two.yaml', 2), '--json', '--reorder', '2s', late]);
    expect(JSON.parse(output)).toMatchObject({ first: '2023-11-14T22:14:00.100Z', lines: { late: 1 } });
  });

  test.each([
    [['--json', '--answers'], '--json and --answers cannot be used together'],
    [['--verify'], 'no answers were recorded'],
    [['--max-refused', 'lots'], 'expected a share such as 0.1%'],
    [['--reorder', '60'], 'expected a time such as'],
    [['nowhere.ndjson'], 'nowhere.ndjson: ENOENT'],
  ])('refuses %j', async (args, message) => {
    const { code, output } = await weir(['replay', '--rules', rulesBy('two.yaml', 2), ...args], log);
    expect(code).toBe(1);
    expect(output).toContain(message);
  });

  test('warns of settings that the recording service had, and of hashes that rules cannot match', async () => {
    const settings = { BACKEND_TYPE: 'redis', SPEND: 'each', SHADOW_MODE: true, QUOTA_MODE: false };
    const head = JSON.stringify({ recording: { version: 1, sample: 0.5, rules: 'others', settings } });
    const answer = { code: 'OK', descriptors: [{ code: 'OK', remaining: 1, rule: 'demo.user' }] };
    const hashed = lineOf('#0123456789abcdef', 1, { hashed: true, answer });
    const rules = file(
      'named.yaml',
      'domain: demo\ndescriptors: [{ key: user }, { key: user, value: anna, rate_limit: { unit: day, requests_per_unit: 1 } }]\n',
    );
    const { output } = await weir([
      'replay',
      '--rules',
      rules,
      '--json',
      file('h.ndjson', `${head}\n${hashed}\n{"dropped":3}\n`),
    ]);
    expect(JSON.parse(output).warnings).toEqual([
      expect.stringContaining('other settings: BACKEND_TYPE=redis, SHADOW_MODE=true'),
      expect.stringContaining('only requests of 50 % of the counters'),
      expect.stringContaining('missing: 3 requests'),
      expect.stringContaining('1 request with hashed values where these rules name values'),
    ]);
  });
});

describe('weir diff', () => {
  test('names nodes without a limit that hide a rule, and patterns that have changed their order', async () => {
    const limit = 'rate_limit: { unit: minute, requests_per_unit: 10 }';
    const user = `  - { key: user, ${limit} }\n`;
    const [a, ab] = ['a*', 'ab*'].map((value) => `  - { key: path, value: "${value}", ${limit} }\n`);
    const before = file('nodes-before.yaml', `domain: demo\ndescriptors:\n${user}${a}${ab}`);
    const admin = '  - { key: user, value: admin }\n';
    const after = file('nodes-after.yaml', `domain: demo\ndescriptors:\n${user}${ab}${a}${admin}`);
    const { code, output } = await weir(['diff', before, after, '--exit-code']);
    expect(code).toBe(1);
    expect(output.trim().split('\n')).toEqual([
      '~ demo.user_admin',
      '    is new: its descriptors no longer match demo.user',
      '~ demo.path_ab*',
      '    is now matched before demo.path_a*',
      '0 added, 0 removed, 0 changed, 2 rerouted',
      'weir: 2 differences',
    ]);
    const { output: json } = await weir(['diff', before, after, '--json']);
    expect(JSON.parse(json)).toMatchObject({
      rerouted: [{ kind: 'hides', node: 'demo.user_admin', others: ['demo.user'] }, { kind: 'precedes' }],
    });
  });

  test('names added, removed and changed rules, and the counters that are kept', async () => {
    const before = file(
      'before.yaml',
      `domain: demo
descriptors:
  - { key: user, rate_limit: { unit: minute, requests_per_unit: 10 } }
  - { key: path, rate_limit: { unit: second, requests_per_unit: 5 } }
  - { key: old, rate_limit: { unit: second, requests_per_unit: 5 } }
`,
    );
    const after = file(
      'after.yaml',
      `domain: demo
spend: all_or_nothing
descriptors:
  - { key: user, rate_limit: { unit: minute, requests_per_unit: 8 } }
  - { key: user, value: bob, rate_limit: { unit: minute, requests_per_unit: 80 } }
  - { key: path, rate_limit: { unit: second, requests_per_unit: 5, algorithm: token_bucket } }
`,
    );
    const { code, output } = await weir(['diff', before, after]);
    expect(code).toBe(0);
    expect(output.trim().split('\n')).toEqual([
      '+ demo.user_bob: 80 per minute',
      '    its descriptors matched demo.user before; counters are kept',
      '- demo.old: 5 per second',
      '    its descriptors match no rule now',
      '~ demo.user',
      '    was unit=MINUTE requests_per_unit=10, shadow_mode: false, quota_mode: false',
      '    now unit=MINUTE requests_per_unit=8, shadow_mode: false, quota_mode: false; counters are kept',
      '~ demo.path',
      '    was unit=SECOND requests_per_unit=5, shadow_mode: false, quota_mode: false',
      expect.stringMatching(/now .*algorithm: token_bucket.*; counters start anew$/),
      '~ domain demo: spend default (SPEND) -> all_or_nothing',
      '1 added, 1 removed, 2 changed',
    ]);
    expect((await weir(['diff', before, after, '--exit-code'])).code).toBe(1);
    expect(await weir(['diff', before, before, '--exit-code'])).toEqual({
      code: 0,
      output: '0 added, 0 removed, 0 changed\n',
    });
  });
});
