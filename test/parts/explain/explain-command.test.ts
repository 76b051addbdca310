import '../../helpers/realm.ts';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runCommand } from '../../helpers/command.ts';
import { startWeir, type Weir } from '../../helpers/weir.ts';

const RULES = `
domain: demo
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 2}}
`;

let folder: string;
let rules: string;
let weir: Weir;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'explain-'));
  rules = join(folder, 'rules.yaml');
  writeFileSync(rules, RULES);
  weir = await startWeir({ USE_STATSD: 'false' }, { args: ['--rules', rules] });
});
afterAll(async () => {
  await weir.stop();
});

const explained = async (...args: readonly string[]): Promise<{ code: number | null; output: string }> => {
  const { code, stdout, stderr } = await runCommand(['explain', ...args]);
  return { code, output: stdout + stderr };
};

const hit = (user: string) =>
  fetch(`http://127.0.0.1:${weir.httpPort}/json`, {
    method: 'POST',
    body: JSON.stringify({ domain: 'demo', descriptors: [{ entries: [{ key: 'user', value: user }] }] }),
  });

/** The ways in which the command explains: with a service, and with rule files only. */
const ways: Readonly<Record<string, () => readonly string[]>> = {
  'by a service': () => ['--target', `localhost:${weir.debugPort}`],
  'by rule files': () => ['--rules', rules],
};

describe.each(Object.entries(ways))('%s', (_, way) => {
  test('hits of 0 are explained as a peek', async () => {
    expect(await explained('demo', 'user=new', '--hits', '0', ...way())).toEqual({
      code: 0,
      output: expect.stringMatching(/^OK .*before: 0 used, 2 left; after: 0 used, 2 left/s),
    });
  });

  test('the exit code is 0 for any answer', async () => {
    expect(await explained('demo', 'user=new', '--hits', '2', ...way())).toMatchObject({ code: 0 });
    expect(await explained('demo', 'user=new', '--hits', '3', ...way())).toMatchObject({ code: 0 });
    expect(await explained('demo', 'nothing=new', ...way())).toMatchObject({ code: 0 });
  });

  test.each([
    ['the domain is empty', ['', 'user=new'], 'rate limit domain must not be empty'],
    ['a value is too long', ['demo', `user=${'x'.repeat(20_000)}`], 'at most'],
  ] as const)('the exit code is 1 without an answer: %s', async (_problem, args, why) => {
    const { code, output } = await explained(...args, ...way());
    expect({ code, output }).toMatchObject({ code: 1, output: expect.stringMatching(/^no answer/) });
    expect(output).toContain(why);
    expect(output).toContain('weir: the request has no answer');
    const { code: ofJson, output: json } = await explained(...args, '--json', ...way());
    expect(ofJson).toBe(1);
    expect(json).toContain('"error": ');
  });
});

test('a peek at a spent counter has the same answer as on /json', async () => {
  for (let hits = 0; hits < 2; hits++) await hit('spent');
  const { output } = await explained(
    'demo',
    'user=spent',
    '--hits',
    '0',
    '--json',
    '--target',
    `localhost:${weir.debugPort}`,
  );
  expect(JSON.parse(output)).toMatchObject({
    status: 200,
    descriptors: [{ hits: 0, limits: [{ before: { used: 2 } }] }],
  });
  expect(await explained('demo', 'user=spent', '--target', `localhost:${weir.debugPort}`)).toEqual({
    code: 0,
    output: expect.stringMatching(/^OVER_LIMIT /),
  });
});
