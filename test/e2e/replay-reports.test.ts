import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { SIMULATED_RULES } from '../../src/parts/simulate/simulate.ts';
import { MAIN } from '../helpers/weir.ts';

const run = promisify(execFile);

const folder = mkdtempSync(join(tmpdir(), 'reports-'));

function file(name: string, content: string): string {
  writeFileSync(join(folder, name), content);
  return join(folder, name);
}

/** Runs the command line to its end. */
async function weir(...args: readonly string[]) {
  try {
    const { stdout, stderr } = await run(process.execPath, [MAIN, ...args], { maxBuffer: 1e8 });
    return { code: 0, stdout, stderr };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string }; // as execFile documents
    return { code, stdout, stderr };
  }
}

const rulesBy = (name: string, requests: number): string =>
  file(
    name,
    `domain: demo\ndescriptors: [{ key: user, rate_limit: { unit: hour, requests_per_unit: ${requests} } }]\n`,
  );
const rules = rulesBy('rules.yaml', 6);
const proposed = rulesBy('proposed.yaml', 4);
const mapping = file(
  'mapping.yaml',
  `domain: demo
rate_limits:
  - actions: [{ request_headers: { header_name: x-user, descriptor_key: user } }]
label: { field: verdict, refuse: bot }
`,
);
/** Ten requests of ann, five of bob and one without a user; two lines are no rows. */
const log = file(
  'access.csv',
  [
    'time,x-user,verdict',
    ...Array.from({ length: 10 }, (_, at) => `2026-01-05T00:00:${10 + at}Z,ann,bot`),
    '2026-01-05T00:00:30Z',
    ...Array.from({ length: 5 }, (_, at) => `2026-01-05T00:00:0${at}Z,bob,human`),
    'yesterday,ann,bot',
    '2026-01-05T00:00:40Z,,human',
  ].join('\n'),
);

test('a table with labels is replayed by its mapping, in order of time, and its broken lines are counted and shown', async () => {
  const { code, stdout } = await weir(
    'replay',
    '--rules',
    rules,
    '--against',
    proposed,
    '--mapping',
    mapping,
    '--json',
    log,
  );
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({
    requests: 15,
    refused: 4,
    first: '2026-01-05T00:00:00.000Z',
    against: { refused: 7 },
    change: { newlyRefused: 3, keysNewlyHurt: 1 },
    labels: { labelled: 15, wrong: 1, missed: 4 },
    lines: {
      read: 19,
      broken: 2,
      late: 0,
      unmapped: 1,
      examples: [`${log}:12: expected 3 values, got 1`, `${log}:18: no time: "yesterday"`],
    },
  });
});

test('a replay writes its page, the same every time', async () => {
  const [one, other] = [join(folder, 'one.html'), join(folder, 'other.html')];
  for (const page of [one, other])
    await weir('replay', '--rules', rules, '--against', proposed, '--mapping', mapping, '--html', page, log);
  const page = readFileSync(one, 'utf8');
  expect(page).toContain('<h1>The change refuses 20 % of requests that passed before: 1 key is newly hurt</h1>');
  expect(page).toContain('1 request without a descriptor from the mapping');
  expect(readFileSync(other, 'utf8')).toBe(page);
});

test('errors of files, flags and formats are printed without a stack', async () => {
  const hello = file('hello.log', 'hello\nworld\n');
  const wrong = file('wrong.yaml', 'domain: demo\nrate_limits: []\n');
  const base = ['replay', '--rules', rules] as const;
  for (const [args, message] of [
    [['replay', log], 'expected --rules, a rule file or directory, got none'],
    [[...base, '--mapping', join(folder, 'none.yaml'), log], 'no such file'],
    [[...base, '--mapping', wrong, log], `${wrong}:2: rate_limits: expected rate_limits, a list that is not empty`],
    [[...base, '--format', 'nginx', log], '--format applies to access logs, which need --mapping'],
    [[...base, '--mapping', mapping, '--html', folder, log], 'illegal operation on a directory'],
    [['replay', '--learn', hello], 'no line has a known format'],
    [['replay', '--learn', log, log], '--learn reads one log, got 2'],
    [['simulate', '--scenario', 'flood'], 'Allowed choices are flash-sale, scraper'],
    [['simulate', '--scenario', 'nat', '--seed', 'x'], 'expected a whole number'],
    ...(['--arrivals 9', '--clients 9', '--change slower', '--upstream 1x9ms'] as const).map(
      (option) =>
        [
          ['simulate', '--scenario', 'nat', ...option.split(' ')],
          `option '--scenario <name>' cannot be used with option '${option.split(' ')[0]} <`,
        ] as const,
    ),
  ] as const) {
    const { code, stderr } = await weir(...args);
    expect({ args, code, stderr }).toEqual({ args, code: 1, stderr: expect.stringContaining(message) });
    expect(stderr).not.toContain('    at ');
  }
});

test('an access log passed as a recording is reported', async () => {
  const { stdout } = await weir('replay', '--rules', rules, log);
  expect(stdout).toContain('an access log needs --mapping, and weir replay --learn prints a draft');
});

test('a simulation is the same for the same seed, and its recording replays to the same report', async () => {
  const recording = join(folder, 'nat.ndjson');
  const simulate = ['simulate', '--scenario', 'nat', '--json', '--seed', '3'];
  const page = join(folder, 'nat.html');
  const [one, other] = await Promise.all([weir(...simulate, '--out', recording), weir(...simulate, '--html', page)]);
  expect(other).toEqual(one);
  expect(readFileSync(page, 'utf8')).not.toMatch(/replay/i);
  const { lines: _, ...report } = JSON.parse(one.stdout);
  expect(report).toMatchObject({ requests: expect.any(Number), labels: { missed: 0 } });
  expect(report.rules['demo.remote_address'].refused).toBeGreaterThan(0);
  const { lines, ...replayed } = JSON.parse(
    (await weir('replay', '--rules', file('scenarios.yaml', SIMULATED_RULES), '--json', recording)).stdout,
  );
  expect(replayed).toEqual(report);
  expect(lines.broken).toBe(0);
});
