import { mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createAuthority, writeCertificate } from '../helpers/certificates.ts';
import { freePort } from '../helpers/process.ts';
import { until } from '../helpers/until.ts';
import { MAIN, startWeir, type Weir } from '../helpers/weir.ts';
import { ask, file, folder, RULES, run, service, weir } from './command-line.ts';

describe('check', () => {
  test('accepts valid files', async () => {
    const { code, output } = await weir([
      'check',
      file('a.yaml', RULES),
      file('b.yaml', RULES.replace('demo', 'other')),
    ]);
    expect({ code, output }).toEqual({ code: 0, output: 'all right: 2 domain(s), 2 rule(s)\n' });
  });

  test('lists every problem of every file, with exit code 1', async () => {
    const a = file('a.yaml', 'domain: demo\ndescriptors:\n  - key: user\n    rate_limt: {}\n');
    const b = file('b.yaml', 'domain: [\n');
    const { code, output } = await weir(['check', a, b]);
    expect(code).toBe(1);
    expect(output).toContain(
      `${a}:4:5: descriptors[0].rate_limt: config error, unknown key 'rate_limt'; did you mean 'rate_limit'?\n    4 |     rate_limt: {}\n      |     ^\n`,
    );
    expect(output).toMatch(/b\.yaml:\d:\d: error loading config file: /);
    expect(output).toContain('weir: 2 error(s), 0 warning(s)\n');
  });

  test('lists the warnings of every file by file and line, with exit code 1 only with --strict', async () => {
    const b = file('b.yaml', RULES.replace('name: per-user', 'replaces: [{ name: free }]').replace('demo', 'other'));
    const a = file('a.yaml', `${RULES}  - key: path\n    shadow_mode: true\n`);
    const told = [
      `${a}:7: warning: descriptors[1].shadow_mode: has no effect: this node has no limit`,
      `${b}:5: warning: descriptors[0].rate_limit.replaces[0].name: nothing is replaced: domain 'other' has no limit named 'free'`,
    ];
    const lines = async (...options: string[]) => {
      const { code, output } = await weir(['check', ...options, b, a]);
      const all = output.trimEnd().split('\n');
      const withoutExcerpts = all.filter((line) => !line.includes(' | '));
      return { code, lines: withoutExcerpts.map((line) => line.replace(/(yaml:\d+):\d+: /, '$1: ')) };
    };
    expect(await lines()).toEqual({ code: 0, lines: [...told, 'all right: 2 domain(s), 2 rule(s), 2 warning(s)'] });
    expect(await lines('--strict')).toEqual({ code: 1, lines: [...told, 'weir: 0 error(s), 2 warning(s)'] });
  });

  test('notes that all_or_nothing does not work with negative hits, without a warning', async () => {
    const a = file('a.yaml', RULES.replace('domain: demo', 'domain: demo\nspend: all_or_nothing'));
    const b = file('b.yaml', RULES.replace('demo', 'other'));
    const { code, output } = await weir(['check', '--strict', a, b]);
    const [note, ...others] = output.trimEnd().split('\n');
    expect(note).toMatch(/^note: spend: all_or_nothing \(domain 'demo'\): .* negative hits/);
    expect({ code, others }).toEqual({ code: 0, others: ['all right: 2 domain(s), 2 rule(s)'] });
  });

  test('notes once what applies to several domains, and names them', async () => {
    const spending = RULES.replace('domain: demo', 'domain: demo\nspend: all_or_nothing');
    const { output } = await weir([
      'check',
      file('a.yaml', spending),
      file('b.yaml', spending.replace('demo', 'other')),
    ]);
    const notes = output.split('\n').filter((line) => line.startsWith('note: '));
    expect(notes).toEqual([expect.stringContaining("all_or_nothing (domains 'demo', 'other')")]);
  });

  test('checks a directory at any depth, and reports an unreadable one', async () => {
    mkdirSync(join(folder, 'team'));
    file('demo.yaml', RULES);
    file('team/other.yml', RULES.replace('demo', 'other'));
    file('notes.txt', 'no rules');
    expect(await weir(['check', '--strict', folder])).toEqual({
      code: 0,
      output: 'all right: 2 domain(s), 2 rule(s)\n',
    });
    const missing = await weir(['check', join(folder, 'missing')]);
    expect(missing).toMatchObject({ code: 1, output: expect.stringContaining('missing:1: cannot be read: ENOENT') });
  });

  test('merges a domain in two files only with --merge-domains', async () => {
    const a = file('a.yaml', RULES);
    const b = file('b.yaml', RULES.replace('key: user', 'key: path'));
    expect((await weir(['check', a, b])).output).toContain("duplicate domain 'demo' in config file");
    expect(await weir(['check', '--merge-domains', a, b])).toMatchObject({ code: 0 });
  });
});

describe('ask', () => {
  let running: Weir;
  beforeAll(async () => {
    const below = '      - { key: method, rate_limit: { unlimited: true } }\n';
    const rules = join(mkdtempSync(join(tmpdir(), 'ask-')), 'rules.yaml');
    const trial = '  - { key: trial, shadow_mode: true, rate_limit: { unit: day, requests_per_unit: 1 } }\n';
    writeFileSync(rules, `${RULES}${trial}  - key: path\n    descriptors:\n${below}`);
    running = await startWeir({}, { args: ['--rules', rules] });
  });
  afterAll(() => running.stop());

  test('explains why no limit applies', async () => {
    for (const [domain, descriptor, why] of [
      ['shop', 'user=alice', "no rules have the domain 'shop'; the nearest is 'demo'"],
      ['demo', 'color=red', "level 1: no rule has the key 'color'; the nearest is demo.user"],
      ['demo', 'path=/', 'the descriptor ends at level 1, where no rule has a limit: path=/,method=… has one'],
      ['demo', 'path=/,method=GET', 'rule demo.path.method ('],
    ] as const)
      expect((await ask(running, domain, descriptor)).output).toContain(why);
  });

  test('finds the gRPC port through the debug port, by --target or WEIR_TARGET', async () => {
    const target = `127.0.0.1:${running.debugPort}`;
    expect((await weir(['ask', 'demo', 'user=target', '--target', target])).output).toContain('1 remaining');
    expect((await weir(['ask', 'demo', 'user=target'], { WEIR_TARGET: target })).output).toContain('0 remaining');
  });

  test('prints text or JSON', async () => {
    const { code, output } = await ask(running, 'demo', 'user=alice', 'user=alice,path=/');
    expect(code).toBe(0);
    expect(output).toMatch(
      /^OK\n {2}user=alice {9}OK {10}per-user: 2 per DAY, 1 remaining, resets in (?:\d+ h(?: \d+ min)?|\d+ min(?: \d+ s)?|[\d.]+ s); rule demo\.user \(.*rules\.yaml:4\)\n {2}user=alice,path=\/ {2}OK {10}no limit applies; the descriptor continues at level 2 with 'path', where the rules end: demo\.user is the last rule\n$/,
    );
    expect(JSON.parse((await ask(running, 'demo', 'user=alice', '--json', '--hits', '2')).output)).toEqual({
      overallCode: 'OVER_LIMIT',
      statuses: [
        {
          code: 'OVER_LIMIT',
          currentLimit: { name: 'per-user', requestsPerUnit: 2, unit: 'DAY' },
          durationUntilReset: expect.stringMatching(/^\d+s$/),
        },
      ],
    });
  });

  test('prints the limits that would have refused', async () => {
    expect((await ask(running, 'demo', 'trial=alice')).output).not.toContain('would refuse');
    expect((await ask(running, 'demo', 'trial=alice')).output).toContain(
      '\n  would refuse: demo.trial: 1 per day (shadow_mode)\n',
    );
  });

  test('reads the counter without counting with --hits 0', async () => {
    await ask(running, 'demo', 'user=bob', '--hits', '0');
    expect((await ask(running, 'demo', 'user=bob', '--hits', '0')).output).toContain('2 remaining');
  });

  test.each([
    [['demo', 'alice'], "a descriptor must be key=value[,key=value…], got 'alice'"],
    [['demo', 'user=alice', '--hits', '-1'], "argument '-1' is invalid. expected a whole number from 0 to 4294967295."],
    [['', 'user=alice'], '3 INVALID_ARGUMENT: rate limit domain must not be empty'],
    [['demo'], "missing required argument 'descriptor'"],
  ])('with %j fails with a reason', async (args, reason) => {
    expect(await ask(running, ...args)).toEqual({ code: 1, output: expect.stringContaining(reason) });
  });

  test('names the address that it could not reach', async () => {
    const port = await freePort();
    const { code, output } = await weir(['ask', 'demo', 'user=alice', '--grpc', `127.0.0.1:${port}`]);
    expect({ code, output }).toEqual({
      code: 1,
      output: expect.stringContaining(`weir: 127.0.0.1:${port}: 14 UNAVAILABLE`),
    });
  });
});

describe('ask with other targets', () => {
  test('supports TLS with a client certificate, and names the flag of an unreadable file', async () => {
    const authority = createAuthority();
    const server = writeCertificate(folder, 'server', authority.issue('localhost'));
    const caller = writeCertificate(folder, 'caller', authority.issue('caller'));
    const ca = writeCertificate(folder, 'ca', authority).cert;
    const tls = { GRPC_SERVER_TLS_CERT: server.cert, GRPC_SERVER_TLS_KEY: server.key, GRPC_CLIENT_TLS_CACERT: ca };
    const rules = ['--rules', file('rules.yaml', RULES)];
    const running = await service({ GRPC_SERVER_USE_TLS: 'true', ...tls }, rules);
    const shown = ['--ca', ca, '--cert', caller.cert, '--key', caller.key];
    const target = ['--grpc', `localhost:${running.grpcPort}`];
    expect((await weir(['ask', 'demo', 'user=alice', ...target, ...shown])).output).toContain('1 remaining');
    const byName = ['--grpc', `127.0.0.1:${running.grpcPort}`, '--server-name', 'localhost', ...shown];
    expect((await weir(['ask', 'demo', 'user=alice', ...byName])).output).toContain('0 remaining');
    expect(await weir(['ask', 'demo', 'user=alice', ...target, '--tls'])).toMatchObject({ code: 1 });
    const missing = await weir(['ask', 'demo', 'user=alice', ...target, '--ca', join(folder, 'none')]);
    expect(missing).toEqual({ code: 1, output: expect.stringContaining('--ca cannot be read: ENOENT') });
  });

  test('supports unix sockets by path, and says what to use if a debug port names one or does not answer', async () => {
    const path = join(folder, 'weir.sock');
    const { debugPort } = await service({ GRPC_UDS: path }, ['--rules', file('rules.yaml', RULES)]);
    expect((await weir(['ask', 'demo', 'user=alice', '--grpc', path])).output).toContain('1 remaining');
    expect(await weir(['ask', 'demo', 'user=a', '--target', `127.0.0.1:${debugPort}`])).toMatchObject({
      code: 1,
      output: expect.stringContaining('its gRPC server is a unix socket: name the path with --grpc'),
    });
    const port = await freePort();
    expect(await weir(['ask', 'demo', 'user=a', '--target', `127.0.0.1:${port}`])).toEqual({
      code: 1,
      output: `weir: 127.0.0.1:${port}: connect ECONNREFUSED 127.0.0.1:${port}; expected the debug port of Weir: see --target and WEIR_TARGET; to call a gRPC server without asking a debug port, use --grpc\n`,
    });
  });
});

test.each([
  [['--unknown'], "weir: unknown option '--unknown'\n(see --help)\n"],
  [['overide'], "weir: unknown command 'overide'; did you mean 'override'?\n(see --help)\n"],
  [['reset', 'demo', 'user=a'], "weir: required option '--reason <text>' not specified\n(see --help)\n"],
  [['check', '/none'], /^\/none:1: cannot be read: .*\nweir: /],
  [['chek', 'config'], /unknown command 'chek'; did you mean 'check'\?/],
  [['serve', 'config'], /serve takes no argument, got 'config'/],
  [['check', '--format', 'xml', 'x'], /Allowed choices are text, json, github, sarif/],
])('%j prints its error in the style of all commands', async (args, expected) => {
  const { code, output } = await weir(args);
  expect(code).toBe(1);
  if (typeof expected === 'string') expect(output).toBe(expected);
  else expect(output).toMatch(expected);
});

test('help marks required options, and shows no secret of the environment', async () => {
  const { output } = await weir(['override', 'set', '--help'], { WEIR_TOKEN: 'abc-123' });
  expect(output).toMatch(/--for <time> .*\(required\)/);
  expect(output).toMatch(/--reason <text> .*\(required\)/);
  expect(output).toContain('Set an override of a descriptor, replacing the previous one.');
  expect(output).not.toContain('abc-123');
});

test('version prints the version, as the built program does', async () => {
  const { version } = JSON.parse(readFileSync(join(__dirname, '../../package.json'), 'utf8')) as { version: string };
  expect(await weir(['version'])).toEqual({ code: 0, output: `${version}\n` });
  expect(await run(process.execPath, [MAIN, '--version'])).toEqual({ code: 0, output: `${version}\n` });
});

test('the help of weir lists every command on one line, grouped by purpose', async () => {
  const { output } = await weir(['--help']);
  const lines = output.trimEnd().split('\n');
  expect(lines.filter((line) => line.length > 80)).toEqual([]);
  const headings = lines.filter((line) => /^\S.*:$/.test(line));
  const groups = ['Run:', 'Change rules safely:', 'Ask why:', 'Operate:', 'Envoy:', 'This program:'];
  expect(headings).toEqual(['Options:', ...groups]);
  const listed = lines.slice(lines.indexOf('Run:')).flatMap((line) => /^ {2}(\w+) .* {2,}\S/.exec(line)?.[1] ?? []);
  expect(listed.toSorted()).toEqual([...commandsInSource()].sort());
  expect(lines).toHaveLength(lines.indexOf('Run:') + listed.length + 11); // six headings, with lines between
});

/** The names of the program's commands in its source, without subcommands. */
function commandsInSource(): ReadonlySet<string> {
  const src = join(__dirname, '../../src');
  const files = ['cli/program.ts', 'cli/commands', 'parts'].flatMap((name) =>
    name.endsWith('.ts')
      ? [name]
      : readdirSync(join(src, name), { recursive: true, encoding: 'utf8' })
          .filter((file) => file.endsWith('.ts'))
          .map((file) => join(name, file)),
  );
  const added = files.flatMap((name) => [
    ...readFileSync(join(src, name), 'utf8').matchAll(/(?:program\s*\.command\(|\bcommand\(\s*program,\s*)'(\w+)'/g),
  ]);
  return new Set(added.map(([, name = '']) => name).filter((name) => name !== 'complete')); // which is hidden
}

test('a reader that leaves ends a command without an error', async () => {
  const { debugPort } = await service({}, ['--rules', file('rules.yaml', RULES)]);
  const health = async (): Promise<unknown> =>
    ((await (await fetch(`http://127.0.0.1:${debugPort}/api/v1/status`)).json()) as { readonly health: string }).health;
  await until('the first report of the deciders', async () => (await health()) === 'healthy');
  const command = `"${process.execPath}" "${MAIN}" status --watch --target 127.0.0.1:${debugPort} | head -1`;
  const { code, output } = await run('sh', ['-c', command]);
  expect({ code, output }).toEqual({ code: 0, output: expect.stringMatching(/^HEALTHY [^\n]*\n$/) });
});

describe('the log of decisions', () => {
  const RULES_WITH_TRIAL = `${RULES}  - { key: open, rate_limit: { unlimited: true } }\n`;

  test('has the rule with its counter for each descriptor, or why none applies, and counts what exceeds its limit', async () => {
    const env = { LOG_LEVEL: 'debug', DECISION_LOG: 'all', DECISION_LOG_MAX_PER_SECOND: '1' };
    const running = await service(env, ['--rules', file('rules.yaml', RULES_WITH_TRIAL)]);
    const requests = 30;
    for (let sent = 0; sent < requests; sent++) await ask(running, 'demo', 'user=alice', 'color=red', 'open=x');
    await running.waitFor('descriptor is unlimited by rule demo.open');
    expect(running.output()).toMatch(
      /DEBUG: got descriptor: \(user=alice\) .*applying limit: 2 per day, rule demo\.user \(.*rules\.yaml:4\), key fixed_window.2\|86400000\|4:demo\|4:user\|5:alice: OK, 1 hit, 1 remaining/,
    );
    expect(running.output()).toContain(
      "got descriptor: (color=red) of domain 'demo': descriptor does not match any limit, no limits applied: level 1: no rule has the key 'color'",
    );
    const page = await (await fetch(`http://127.0.0.1:${running.debugPort}/metrics`)).text();
    const dropped = Number(/^weir_decisions_not_logged_total (\d+)$/m.exec(page)?.[1]);
    const logged = running.output().match(/INFO: decision \{/g)?.length ?? 0;
    expect(dropped).toBeGreaterThan(0);
    expect(dropped + logged).toBe(requests);
  });

  test('has only refusals as JSON, at any level, with DECISION_LOG=refused', async () => {
    const env = { DECISION_LOG: 'refused', LOG_FORMAT: 'json', LOG_LEVEL: 'fatal' };
    const running = await service(env, ['--rules', file('rules.yaml', RULES)]);
    await ask(running, 'demo', 'user=alice');
    await ask(running, 'demo', 'user=alice', '--hits', '3');
    await running.waitFor('"decision"');
    const lines = running.output().match(/^\{.*\}$/gm) ?? [];
    const [opened, ...records] = lines.map((line) => JSON.parse(line));
    expect(opened['@message']).toMatch(/is open$/);
    expect(records.map(({ decision }) => decision)).toEqual([
      {
        domain: 'demo',
        code: 'OVER_LIMIT',
        retry_after_ms: null, // it asks for more than the limit
        descriptors: [
          {
            ...{ entries: ['user=alice'], hits: 3, rule: 'demo.user', file: join(folder, 'rules.yaml'), line: 4 },
            ...{ key: 'fixed_window.2|86400000|4:demo|4:user|5:alice', limit: '2 per day', code: 'OVER_LIMIT' },
            remaining: expect.any(Number),
          },
        ],
      },
    ]);
  });
});
