import '../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { openReady } from '../helpers/connection.ts';
import { createClient } from '../helpers/grpc-client.ts';
import { startMemcached } from '../helpers/memcached.ts';
import { type Redis, startRedis } from '../helpers/redis.ts';
import { requestOf } from '../helpers/trial.ts';
import { eventually } from '../helpers/until.ts';
import { MAIN, startWeir, type Weir } from '../helpers/weir.ts';

const rules = (perYear: number | string): string => `domain: demo
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: ${perYear} }
`;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'candidate-'));
  writeFileSync(join(folder, 'rules.yaml'), rules(5));
});

const started = (env: Record<string, string> = {}): Promise<Weir> =>
  startWeir(
    { ADMIN_TOKEN: 'token', USE_STATSD: 'false', AUDIT_LOG: join(folder, 'audit.log'), ...env },
    { args: ['--rules', join(folder, 'rules.yaml')] },
  );

interface Shown {
  readonly state: string;
  readonly since: string | null;
  readonly problems: readonly { readonly line?: number; readonly column?: number; readonly message: string }[];
  readonly dropped: { readonly behind: number; readonly overload: number };
  readonly failed: number;
  readonly inFlight: number;
  readonly maxInFlight: number;
  readonly totals: { readonly requests: number; readonly newlyRefused: number; readonly newlyPassed: number };
  readonly rules: readonly { readonly rule: string; readonly newlyRefusedKeys: { readonly keys: readonly object[] } }[];
}

const TOKEN = { authorization: 'Bearer token' };

async function call<T>(weir: Weir, method: string, path: string, body?: string): Promise<{ status: number; body: T }> {
  const url = `http://127.0.0.1:${weir.debugPort}/api/v1${path}`;
  const answer = await fetch(url, { method, headers: TOKEN, ...(body !== undefined && { body }) });
  return { status: answer.status, body: (await answer.json()) as T };
}

const shown = async (weir: Weir): Promise<Shown> => (await call<Shown>(weir, 'GET', '/candidate')).body;

/** Requests that got no answer from the candidate. */
const untried = ({ failed, dropped }: Shown): number => failed + dropped.behind + dropped.overload;

async function untilShown(weir: Weir, what: string, holds: (found: Shown) => boolean): Promise<Shown> {
  let found = await shown(weir);
  await eventually(
    async () => {
      found = await shown(weir);
      return holds(found);
    },
    () => `${what}; ${JSON.stringify(found)}`,
  );
  return found;
}

async function ask(weir: Weir, user: string, times = 1): Promise<number[]> {
  const body = JSON.stringify({ domain: 'demo', descriptors: [{ entries: [{ key: 'user', value: user }] }] });
  const codes: number[] = [];
  for (let at = 0; at < times; at++)
    codes.push((await fetch(`http://127.0.0.1:${weir.httpPort}/json`, { method: 'POST', body })).status);
  return codes;
}

/** Runs `weir candidate …`. @returns its output and exit code */
async function weirCandidate(weir: Weir, ...args: readonly string[]): Promise<{ code: number; text: string }> {
  const all = [MAIN, 'candidate', ...args, '--target', `127.0.0.1:${weir.debugPort}`, '--token', 'token'];
  try {
    const { stdout } = await promisify(execFile)(process.execPath, all, {
      env: { PATH: process.env.PATH, TMPDIR: process.env.TMPDIR, NO_COLOR: '1' },
    });
    return { code: 0, text: stdout };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { code, text: stdout + stderr };
  }
}

test('an operator tries a lower limit, sees which clients it would refuse, and ends the trial', async () => {
  const weir = await started();
  try {
    const path = join(folder, 'candidate.yaml');
    expect((await weirCandidate(weir)).text).toBe('no candidate is loaded\n');
    writeFileSync(path, rules('two'));
    const wrong = await weirCandidate(weir, 'load', path, '--reason', 'a slip');
    expect(wrong.code).toBe(1);
    expect(wrong.text).toMatch(
      /the candidate is invalid, and nothing has changed: line 4: descriptors\[0\]\.rate_limit\.requests_per_unit: .*`two`/,
    );
    writeFileSync(path, rules(2));
    expect((await weirCandidate(weir, 'load', path, '--reason', 'lower')).code).toBe(0);
    await untilShown(weir, 'it is tried', ({ since }) => since !== null);
    expect(await ask(weir, 'alice', 6)).toEqual([200, 200, 200, 200, 200, 429]);
    expect(await ask(weir, 'bob', 2)).toEqual([200, 200]);
    await untilShown(weir, 'all are tried', ({ totals }) => totals.requests === 8);
    const { text } = await weirCandidate(weir);
    expect(text).toContain('1 rule of demo is tried, from the admin API by admin: lower');
    expect(text).toContain('8 requests, refused 1 live, 4 by the candidate: 3 newly refused, 0 newly passed');
    expect(text).toContain('newly refused: 1 key\n    3  user=alice\n');
    const invalid = await call(weir, 'POST', '/candidate?reason=slip', rules('two').repeat(2));
    expect(invalid).toMatchObject({ status: 400, body: { errors: [{ at: 'line 4' }, {}] } });
    expect((await weirCandidate(weir)).text).toBe(text); // the trial goes on
    const diff = (await weirCandidate(weir, 'diff')).text;
    expect(diff).toContain('~ demo.user: ');
    expect(diff).toContain('counters are kept');
    expect(diff).toContain('to apply it, change the rules at their source');
    const metrics = await (await fetch(`http://127.0.0.1:${weir.debugPort}/metrics`)).text();
    expect(metrics).toContain('weir_candidate_on 1\n');
    expect(metrics).toContain('weir_candidate_decisions_total{rule="demo.user",live="ok",candidate="refused"} 3\n');
    expect(metrics).toContain(
      'weir_candidate_decisions_total{rule="demo.user",live="refused",candidate="refused"} 1\n',
    );
    expect((await weirCandidate(weir, 'clear', '--reason', 'done')).text).toBe('no candidate is loaded\n');
    expect(await ask(weir, 'carol', 3)).toEqual([200, 200, 200]);
    const audited = readFileSync(join(folder, 'audit.log'), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(audited.map(({ change, reason }) => [change, reason])).toEqual([
      ['candidate', 'lower'],
      ['candidate', 'done'],
    ]);
  } finally {
    await weir.stop();
  }
});

test('a text is checked while typing, and an edit starts with the live file', async () => {
  const weir = await started({ HASH_KEYS: 'true' });
  try {
    const found = await call<Shown & { ok: boolean }>(weir, 'POST', '/rules/check', rules('five'));
    expect(found).toMatchObject({
      status: 200,
      body: {
        ok: false,
        moreProblems: 0,
        problems: [{ severity: 'error', line: 4, path: 'descriptors[0].rate_limit.requests_per_unit' }],
      },
    });
    expect(found.body.problems[0]).not.toHaveProperty('file');
    expect(await call(weir, 'POST', '/rules/check', '{')).toMatchObject({
      status: 200,
      body: { ok: false, problems: [{ line: 1, column: 2 }] },
    });
    const empty = 'domain: demo\ndescriptors: [{ key: user, rate_limit: { unit: minute } }]';
    expect(await call(weir, 'POST', '/rules/check', empty)).toMatchObject({
      body: { ok: true, domain: 'demo', rules: 1, problems: [{ severity: 'warning' }] },
    });
    expect(await call(weir, 'GET', '/rules/text?domain=demo')).toMatchObject({
      status: 200,
      body: { domain: 'demo', files: [{ name: join(folder, 'rules.yaml'), text: rules(5) }] },
    });
    expect((await call(weir, 'GET', '/rules/text?domain=nowhere')).status).toBe(404);
    expect((await call(weir, 'GET', '/candidate/text')).status).toBe(404);
    expect((await call(weir, 'GET', '/candidate/diff')).status).toBe(404);
    expect((await call(weir, 'POST', '/candidate', rules(1))).status).toBe(400); // no reason
    expect(await call(weir, 'POST', '/candidate?reason=try', rules(1))).toMatchObject({
      status: 200,
      body: { state: 'on', origin: 'api', by: 'admin', reason: 'try', ruleCount: 1, domains: ['demo'] },
    });
    expect(await call(weir, 'GET', '/candidate/text')).toMatchObject({ body: { text: rules(1) } });
    await untilShown(weir, 'it is tried', ({ since }) => since !== null);
    await ask(weir, 'alice', 2);
    const { rules: list } = await untilShown(weir, 'alice is newly refused', ({ totals }) => totals.newlyRefused === 1);
    expect(JSON.stringify(list)).not.toContain('alice');
    expect(list[0]?.newlyRefusedKeys.keys).toEqual([
      { descriptor: expect.stringMatching(/^user=#[\w-]{16}$/), hits: 1, atMostTooHighBy: 0 },
    ]);
    const unsigned = await fetch(`http://127.0.0.1:${weir.debugPort}/api/v1/candidate?reason=x`, { method: 'POST' });
    expect(unsigned.status).toBe(401);
  } finally {
    await weir.stop();
  }
});

describe('with Redis', () => {
  let redis: Redis;
  let other: Redis;
  beforeAll(async () => {
    [redis, other] = await Promise.all([startRedis(), startRedis()]);
  });
  afterAll(async () => {
    await redis.stop();
    await other.stop();
  });

  test('every worker, including a replacement, tries the candidate in its own name space', async () => {
    writeFileSync(join(folder, 'rules.yaml'), rules(1_000_000));
    writeFileSync(join(folder, 'candidate.yaml'), rules(1));
    const weir = await started({
      ...{ REDIS_URL: redis.url, WORKERS: '2', CANDIDATE_RULES_PATH: join(folder, 'candidate.yaml') },
      LOG_LEVEL: 'info',
    });
    const connection = await openReady(redis);
    /** Sends requests until enough are newly refused. */
    const untilRefused = (user: string): Promise<void> =>
      eventually(async () => {
        if ((await shown(weir)).totals.newlyRefused >= 4) return true;
        expect(await ask(weir, user)).toEqual([200]);
        return false;
      });
    try {
      await untilShown(weir, 'it is tried', ({ since }) => since !== null);
      await untilRefused('alice');
      const keys = (await connection.keys('*')).filter((key) => key.includes('alice')).sort();
      expect(keys).toHaveLength(2);
      expect(keys[0]).toBe(`candidate|${keys[1]}`);
      for (const [, pid] of weir.output().matchAll(/worker [12] \(process (\d+)\) is listening/g))
        process.kill(Number(pid), 'SIGKILL');
      await weir.waitFor((printed) => [3, 4].every((id) => printed.includes(`worker ${id} (process`)));
      await weir.waitFor((printed) => (printed.match(/worker [34] \(process \d+\) is listening/g) ?? []).length === 2);
      await untilShown(weir, 'their figures are gone', ({ totals }) => totals.requests === 0);
      await untilRefused('bob');
      writeFileSync(join(folder, 'candidate.yaml'), rules('none'));
      const wrong = await untilShown(weir, 'it is wrong', ({ state }) => state === 'wrong');
      expect(wrong.problems).toMatchObject([{ file: join(folder, 'candidate.yaml'), line: 4 }]);
      expect(await ask(weir, 'alice')).toEqual([200]);
    } finally {
      connection.disconnect();
      await weir.stop();
    }
  });

  test('unchanged rules change no answer, from one window to the next', async () => {
    const all = `domain: demo
descriptors:
  - { key: user, rate_limit: { unit: second, requests_per_unit: 3 } }
  - { key: user, value: bucket*, rate_limit: { unit: second, requests_per_unit: 9, algorithm: token_bucket } }
  - { key: user, value: log*, rate_limit: { unit: second, requests_per_unit: 5, algorithm: sliding_window_log } }
`;
    for (const name of ['rules.yaml', 'candidate.yaml']) writeFileSync(join(folder, name), all);
    const weir = await started({ REDIS_URL: redis.url, CANDIDATE_RULES_PATH: join(folder, 'candidate.yaml') });
    const client = createClient(`127.0.0.1:${weir.grpcPort}`);
    try {
      const found = await untilShown(weir, 'it is tried', ({ since }) => since !== null);
      let refused = 0;
      let compared = 0;
      while (compared < 300) {
        const round = Math.floor(refused / 50); // other users, whose counters are new
        const users = ['alice', `bucket${round}`, `log${round}`].map((user) => client.send(requestOf(`user=${user}`)));
        for (const { overall_code: code } of await Promise.all(users)) refused += code === 2 ? 1 : 0;
        compared = (await shown(weir)).totals.requests;
      }
      const { totals } = await untilShown(weir, 'all are tried', ({ inFlight }) => inFlight === 0);
      expect(totals).toMatchObject({ newlyRefused: 0, newlyPassed: 0 });
      expect(found.failed).toBe(0);
    } finally {
      client.close();
      await weir.stop();
    }
  });

  test('while the Redis of the candidate hangs and dies under load, every answer is the live one', async () => {
    writeFileSync(join(folder, 'candidate.yaml'), rules(1));
    const weir = await started({
      REDIS_URL: redis.url,
      CANDIDATE_REDIS_URL: other.url,
      STORE_TIMEOUT: '60s', // of 2,000 calls at once
      CANDIDATE_RULES_PATH: join(folder, 'candidate.yaml'),
    });
    const client = createClient(`127.0.0.1:${weir.grpcPort}`);
    let floods = 0;
    /** Sends many calls at once, each by another user, again and again until the candidate shows their effect. */
    const floodUntil = async (holds: (found: Shown) => boolean): Promise<Shown> => {
      for (;;) {
        const calls = Array.from({ length: 1_000 }, (_, at) => client.send(requestOf(`user=${floods}-${at}`)));
        floods++;
        for (const { overall_code: code } of await Promise.all(calls)) expect(code).toBe(1);
        const found = await shown(weir);
        if (holds(found)) return found;
      }
    };
    try {
      await untilShown(weir, 'it is tried', ({ since }) => since !== null);
      const before = await floodUntil(({ totals }) => totals.requests > 0);
      other.pause();
      const hanging = await floodUntil((found) => untried(found) > untried(before));
      expect(hanging.inFlight).toBeLessThanOrEqual(hanging.maxInFlight);
      other.resume();
      await other.stop();
      await floodUntil(({ failed }) => failed > 0);
      expect(await ask(weir, 'dave', 6)).toEqual([200, 200, 200, 200, 200, 429]);
    } finally {
      client.close();
      const { code } = await weir.stop();
      expect(code).toBe(0);
    }
  });
});

test('requests are answered while a huge candidate is loaded, and one beyond the bound is refused', async () => {
  const nodes = Array.from(
    { length: 5_000 },
    (_, at) => `  - { key: user, value: u${at}, rate_limit: { unit: hour, requests_per_unit: 7 } }`,
  );
  const path = join(folder, 'candidate.yaml');
  writeFileSync(path, `domain: demo\ndescriptors:\n${nodes.join('\n')}\n`);
  const weir = await started({ CANDIDATE_RULES_PATH: path });
  try {
    let asked = 0;
    for (let isOn = false; !isOn; asked++) {
      expect(await ask(weir, `user-${asked}`)).toEqual([200]);
      isOn = (await shown(weir)).totals.requests > 0;
    }
    const { rules: list } = await shown(weir);
    expect(list).toMatchObject([{ rule: 'demo.user', inCandidate: false }]);
    writeFileSync(`${path}.new`, `# ${'x'.repeat(8 * 1024 * 1024)}\n${rules(1)}`);
    renameSync(`${path}.new`, path); // a part of it would be read as another invalid file
    const { problems } = await untilShown(weir, 'it is refused', ({ state }) => state === 'wrong');
    expect(problems).toMatchObject([{ message: expect.stringContaining('may have at most 8388608 bytes') }]);
    expect(await ask(weir, 'alice', 6)).toEqual([200, 200, 200, 200, 200, 429]);
  } finally {
    await weir.stop();
  }
});

test('a candidate can also count in memcached, separately from the live counters', async () => {
  const memcached = await startMemcached();
  const weir = await started({ BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: memcached.address });
  try {
    expect((await call(weir, 'POST', '/candidate?reason=try', rules(2))).status).toBe(200);
    await untilShown(weir, 'it is tried', ({ since }) => since !== null);
    expect(await ask(weir, 'alice', 6)).toEqual([200, 200, 200, 200, 200, 429]);
    await untilShown(weir, 'alice is newly refused', ({ totals }) => totals.newlyRefused === 3);
  } finally {
    await weir.stop();
    await memcached.stop();
  }
});
