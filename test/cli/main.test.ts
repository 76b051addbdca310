import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client, credentials } from '@grpc/grpc-js';
import { healthMethods } from '../helpers/health-methods.ts';
import { freePort, start } from '../helpers/process.ts';
import { startRedis } from '../helpers/redis.ts';
import { until } from '../helpers/until.ts';
import { MAIN, type Weir } from '../helpers/weir.ts';
import { ask, file, folder, RULES, run, service, stops } from './command-line.ts';

const serve = (args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  run(process.execPath, [MAIN, 'serve', ...args], env);

const get = ({ httpPort }: Weir, path: string) => fetch(`http://127.0.0.1:${httpPort}${path}`);

/** Repeats the question until the answer is as expected. */
async function eventually<T>(question: () => Promise<T>, isExpected: (answer: T) => boolean): Promise<T> {
  let answer = await question();
  await until('the expected answer', async () => {
    if (!isExpected(answer)) answer = await question();
    return isExpected(answer);
  });
  return answer;
}

describe('serve', () => {
  test('prints the rules, its addresses and a command to try, and ends with 0 on SIGTERM', async () => {
    const running = await service({ REDIS_POOL_SIZE: '10' }, ['--rules', file('rules.yaml', RULES)]);
    expect(running.output()).toContain('REDIS_POOL_SIZE is set but has no effect: one connection carries all calls');
    expect(running.output()).toContain('1 domain, 1 rule\n            demo.user: 2 per day\n');
    expect(running.output()).toContain(`gRPC      127.0.0.1:${running.grpcPort}\n`);
    expect(running.output()).toContain(`npx weir ask demo user=alice --target localhost:${running.debugPort}`);
    expect(await running.stop('SIGTERM')).toEqual({ code: 0, signal: null });
  });

  test('settings of decisions reach them', async () => {
    const limits = [
      '  - { key: none, rate_limit: { unit: day, requests_per_unit: 0 } }\n',
      '  - { key: soft, rate_limit: { unit: day, requests_per_unit: 0, soft: 1 } }\n',
    ];
    const env = { STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: 'true', LIMIT_SOFT_HEADER: 'x-soft' };
    const running = await service(env, ['--rules', file('rules.yaml', RULES + limits.join(''))]);
    expect((await ask(running, 'demo', 'user=alice', 'none=x')).output).toMatch(/^OVER_LIMIT\n/);
    expect((await ask(running, 'demo', 'user=alice', '--hits', '0')).output).toContain('2 remaining');
    expect((await ask(running, 'demo', 'soft=alice')).output).toContain('x-soft: demo.soft');
  });

  test('answers delayed calls in turn after SIGTERM', async () => {
    const queue = '{ window: 5s, requests_per_unit: 1, algorithm: leaky_bucket, max_delay: 60s }';
    const rules = file('rules.yaml', `domain: demo\ndescriptors:\n  - { key: user, rate_limit: ${queue} }\n`);
    const running = await service({ DRAIN_TIMEOUT: '60s' }, ['--rules', rules]);
    const request = { domain: 'demo', descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }] };
    const post = () =>
      fetch(`http://127.0.0.1:${running.httpPort}/json`, { method: 'POST', body: JSON.stringify(request) });
    expect((await post()).status).toBe(200);
    const held = post();
    const total = async () => (await fetch(`http://127.0.0.1:${running.debugPort}/metrics`)).text();
    await eventually(total, (text) => /weir_hits_total\{.*\} 2/.test(text)); // both are decided
    for (const gauge of [/^weir_calls_in_flight 1$/m, /^weir_calls_held 1$/m, /^weir_connections [1-9]$/m])
      expect(await total()).toMatch(gauge);
    process.kill(running.pid, 'SIGTERM');
    expect((await held).status).toBe(200);
    expect(await running.exited).toEqual({ code: 0, signal: null });
  });

  test('ends on SIGTERM despite open watches and connections', async () => {
    const running = await service({}, ['--rules', file('rules.yaml', RULES)]);
    expect((await get(running, '/healthcheck')).status).toBe(200); // fetch keeps the connection
    const client = new Client(`127.0.0.1:${running.grpcPort}`, credentials.createInsecure());
    const { path, requestSerialize, responseDeserialize } = healthMethods.Watch;
    const watch = client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, { service: 'ratelimit' });
    watch.on('error', () => {}); // this test is about its end
    const statuses: unknown[] = [];
    const first = new Promise<void>((resolve) => watch.on('data', (status) => statuses.push(status) && resolve()));
    await first;
    const metrics = await (await fetch(`http://127.0.0.1:${running.debugPort}/metrics`)).text();
    expect(metrics).toMatch(/^weir_health_watches 1$/m);
    expect(await running.stop('SIGTERM')).toEqual({ code: 0, signal: null });
    await until('the last status has been read', () => statuses.length > 1);
    client.close();
    expect(statuses).toEqual([{ status: 'SERVING' }, { status: 'NOT_SERVING' }]);
  });

  test('lists all problems of invalid rules at a plain path, with exit code 1', async () => {
    const rules = file('rules.yaml', 'domain: demo\ndescriptors:\n  - value: a\n    rate_limit: { unit: fortnight }\n');
    const { code, output } = await serve(['--rules', rules]);
    expect(code).toBe(1);
    expect(output).toContain(`${rules}:3: descriptors[0].key: descriptor has empty key`);
    expect(output).toContain(`${rules}:4: descriptors[0].rate_limit.unit: invalid rate limit unit 'fortnight'`);
    expect(output).toContain(`weir: the rules at ${rules} are invalid`);
  });

  describe('prints only lines of JSON with LOG_FORMAT=json', () => {
    const recordsIn = (output: string): readonly Readonly<Record<string, unknown>>[] =>
      output
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line));
    const env = { LOG_FORMAT: 'json', LOG_LEVEL: 'info' };

    test('it prints records from its start to its end', async () => {
      const running = await service(env, ['--rules', file('rules.yaml', RULES)]);
      await running.stop('SIGTERM');
      const records = recordsIn(running.output());
      expect(records).toContainEqual(
        expect.objectContaining({
          level: 'info',
          '@timestamp': expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
          '@message': expect.stringMatching(/^Weir \S+ is open$/),
          grpc: `127.0.0.1:${running.grpcPort}`,
        }),
      );
      expect(records).toContainEqual(expect.objectContaining({ '@message': 'shutting down: SIGTERM' }));
    });

    test('if it cannot start', async () => {
      const { code, output } = await serve([], { ...env, GRPC_PORT: 'http' });
      expect(code).toBe(1);
      const message = expect.stringContaining('GRPC_PORT must be a port');
      expect(recordsIn(output)).toContainEqual(expect.objectContaining({ level: 'fatal', '@message': message }));
    });
  });

  test('lists all invalid variables, with exit code 1', async () => {
    const { code, output } = await serve([], { GRPC_PORT: 'http', SHADOW_MODE: 'maybe' });
    expect(code).toBe(1);
    expect(output).toContain("GRPC_PORT must be a port from 0 to 65535, got 'http'");
    expect(output).toContain("SHADOW_MODE must be true or false, got 'maybe'");
  });

  test('names the variable of an occupied port, with exit code 1', async () => {
    const running = await service({}, ['--rules', file('rules.yaml', RULES)]);
    const ports = { GRPC_HOST: '127.0.0.1', HOST: '127.0.0.1', DEBUG_HOST: '127.0.0.1', DEBUG_PORT: '0', PORT: '0' };
    const { code, output } = await serve(['--rules', join(folder, 'rules.yaml')], {
      ...ports,
      GRPC_PORT: String(running.grpcPort),
    });
    expect(code).toBe(1);
    expect(output).toContain(`weir: GRPC_PORT: cannot listen on 127.0.0.1:${running.grpcPort}`);
  });

  test('warns about rules, loads changed ones while running, shows invalid ones, which change nothing, and logs each', async () => {
    const text = RULES.replace(', requests_per_unit: 2', '');
    const rules = file('rules.yaml', text);
    const running = await service({ LOG_LEVEL: 'info' }, ['--rules', rules]);
    expect(running.output()).toContain(`${rules}:5: warning: descriptors[0].rate_limit.requests_per_unit: without`);
    await running.waitFor('loaded 1 rule of 1 domain from');
    const rulesShown = async () => (await fetch(`http://127.0.0.1:${running.debugPort}/rlconfig`)).text();

    file('rules.yaml', `${RULES.replace('2 }', '7 }')}  - { key: path, rate_limit: { unlimited: true } }\n`);
    expect(await eventually(rulesShown, (shown) => shown.includes('=7'))).toContain(
      'demo.user: unit=DAY requests_per_unit=7',
    );
    await running.waitFor('reloaded 2 rules of 1 domain from');

    file('rules.yaml', 'domain: demo\ndescriptors: 5\n');
    const problem = 'rules.yaml:2: descriptors: error loading config file: yaml: unmarshal errors: line 2: cannot';
    const shown = await eventually(rulesShown, (page) => page.includes(problem));
    expect(shown).toContain('demo.user: unit=DAY requests_per_unit=7');
    await running.waitFor('the rules in force are kept: hash');

    file('rules.yaml', text);
    await running.waitFor('the rules are valid again: reloaded');
    await running.stop('SIGTERM');
    const infos = running.output().match(/INFO: .*(rules|shutting down).*/g) ?? [];
    const [first = '', second = '', third = '', last = ''] = infos;
    const hash = /hash ([0-9a-f]{12})/;
    expect(second).toMatch(/hash [0-9a-f]{12}: added demo\.path; changed demo\.user; counters kept: demo\.user$/);
    expect(third).toMatch(/hash [0-9a-f]{12}: changed demo\.user; removed demo\.path; counters kept: demo\.user$/);
    expect(hash.exec(third)?.[1]).toBe(hash.exec(first)?.[1]); // the same rules again
    expect(hash.exec(second)?.[1]).not.toBe(hash.exec(first)?.[1]);
    expect(last).toContain('shutting down: SIGTERM');
    expect(infos).toHaveLength(4);
  });

  test('stays up, but not ready, while the files in a runtime directory are invalid', async () => {
    const config = join(folder, 'ratelimit', 'config');
    mkdirSync(config, { recursive: true });
    writeFileSync(join(config, 'demo.yaml'), 'domain: ""\n');
    const running = await service({ RUNTIME_ROOT: folder, RUNTIME_SUBDIRECTORY: 'ratelimit' });

    const unhealthy = await get(running, '/healthcheck?verbose');
    expect([unhealthy.status, await unhealthy.text()]).toEqual([500, 'no rate limit configuration loaded\n']);
    const refused = await ask(running, 'demo', 'user=alice');
    expect(refused).toEqual({
      code: 1,
      output: expect.stringContaining('14 UNAVAILABLE: no rate limit configuration loaded'),
    });
    expect(running.output()).toContain(`${join(config, 'demo.yaml')}:1: domain: config file cannot have empty domain`);

    writeFileSync(join(config, 'demo.yaml'), RULES);
    const answer = await eventually(
      () => ask(running, 'demo', 'user=alice'),
      ({ code }) => code === 0,
    );
    expect(answer.output).toContain('per-user: 2 per DAY, 1 remaining');
    expect((await get(running, '/healthcheck')).status).toBe(200);
  });

  test('survives a Redis that is down at the start, then up, down and up again', async () => {
    const redis = await startRedis();
    stops.push(redis.stop);
    await redis.stop();
    const running = await service({ REDIS_URL: redis.url, REDIS_SOCKET_TYPE: 'tcp' }, [
      '--rules',
      file('rules.yaml', RULES),
    ]);
    const answers = () => ask(running, 'demo', 'user=alice');
    const refused = {
      code: 1,
      output: expect.stringContaining('14 UNAVAILABLE: rate limit store unavailable: redis: '),
    };
    expect(await answers()).toEqual(refused);
    expect((await get(running, '/healthcheck')).status).toBe(500);
    expect(running.output()).toContain(`no connection to redis://${redis.url}/0: connect ECONNREFUSED`);

    await redis.restart();
    expect(await eventually(answers, ({ code }) => code === 0)).toMatchObject({
      output: expect.stringContaining('1 remaining'),
    });
    expect((await get(running, '/healthcheck')).status).toBe(200);
    await redis.stop();
    expect(await eventually(answers, ({ code }) => code === 1)).toEqual(refused);
    await redis.restart();
    expect(await eventually(answers, ({ code }) => code === 0)).toMatchObject({
      output: expect.stringContaining('1 remaining'),
    });
  });
});

test('flags of serve override the environment', async () => {
  const ports = [await freePort(), await freePort(), await freePort()].map(String);
  const [grpc = '', http = '', debug = ''] = ports;
  const flags = ['--grpc-port', grpc, '--port', http, '--debug-port', debug, '--log-level', 'info'];
  const running = await start(process.execPath, [MAIN, 'serve', '--rules', file('rules.yaml', RULES), ...flags], {
    env: { PATH: process.env.PATH, GRPC_PORT: '1', PORT: '1', DEBUG_PORT: '1', LOG_LEVEL: 'error' },
  });
  stops.push(running.stop);
  await running.waitFor(`gRPC      0.0.0.0:${grpc}`);
  expect(running.output()).toContain(`HTTP      0.0.0.0:${http}`);
  expect(running.output()).toContain(`debug     0.0.0.0:${debug}`);
  expect(running.output()).toContain('INFO: loaded 1 rule of 1 domain from');
});
