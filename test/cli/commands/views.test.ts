import '../../helpers/realm.ts';
import { spawn } from 'node:child_process';
import { type Administered, startAdministered } from '../../helpers/administered.ts';
import { runCommand } from '../../helpers/command.ts';
import { until } from '../../helpers/until.ts';
import { MAIN } from '../../helpers/weir.ts';

const RULES = `
domain: demo
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 1, alignment: first_hit}}
  - {key: seen, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 1, alignment: first_hit}}
  - {key: token, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 1, alignment: first_hit}}
`;

let service: Administered;
beforeAll(async () => {
  service = await startAdministered(RULES, { EXPLAIN_SAMPLE: '100' });
});
afterAll(() => service.stop());

const target = () => ['--target', `localhost:${service.weir.debugPort}`];

const run = async (args: readonly string[], env: Readonly<Record<string, string>> = { WEIR_TOKEN: 'token' }) =>
  (await runCommand([...args, ...target()], { env })).stdout;

const ask = (domain: string, ...keys: readonly string[]) =>
  service.ask({ domain, descriptors: keys.map((key) => ({ entries: [{ key, value: 'a' }] })) });

test('unmatched shows the number of requests if all matched a rule, and if there were none', async () => {
  expect(await run(['unmatched'])).toBe('no request arrived in the last minute: try weir doctor\n');
  await ask('demo', 'user');
  expect(await run(['unmatched'])).toBe('no unmatched descriptor in the last minute, of 1 request\n');
  await ask('demo', 'usr');
  expect(await run(['unmatched'])).toMatch(/^1 descriptor of the last minute matched no rule\n/);
  expect(await run(['unmatched', '--domain', 'demo'])).toMatch(/^1 descriptor of domain 'demo' of the last minute/);
  expect(await run(['unmatched', '--domain', 'other'])).toBe(
    "no unmatched descriptor of domain 'other' in the last minute, of 2 requests\n",
  );
});

test('unmatched explains why a descriptor matched no rule, even without values', async () => {
  await ask('demo', 'usr');
  await ask('nowhere', 'user');
  const text = await run(['unmatched'], {});
  expect(text).toContain("    level 1, key 'usr': the level has no node with the key\n");
  expect(text).toContain('    no rules have the domain\n');
  expect(text).not.toMatch(/no_such_key|no_domain/);
});

test('top, get and refusals refuse a rule that does not exist, with the nearest name', async () => {
  for (const command of ['top', 'get', 'refusals'])
    expect(
      await runCommand([command, '--rule', 'demo.usr', ...target()], { env: { WEIR_TOKEN: 'token' } }),
    ).toMatchObject({
      code: 1,
      stderr: `weir: localhost:${service.weir.debugPort}: no rule has the path 'demo.usr'; did you mean 'demo.user'?\n`,
    });
  expect(await run(['top', '--rule', 'demo.seen'])).toBe('no hits in the last minute\n');
});

test('refusals show the modes of exceeded limits that refuse nothing', async () => {
  for (let times = 0; times < 2; times++) await ask('demo', 'user', 'seen', 'token');
  const text = await run(['refusals']);
  expect(text).toContain('demo.user: 1 per year  OVER_LIMIT');
  expect(text).toContain('demo.seen: 1 per year (shadow)  OVER_LIMIT');
  expect(text).toContain('demo.token: 1 per year (quota)  OVER_LIMIT');
});

test('refusals --follow prints every refusal once, even if many arrive between two pages', async () => {
  const follow = spawn(process.execPath, [MAIN, 'refusals', '--follow', '--count', '3', ...target()], {
    env: { NO_COLOR: '1', PATH: process.env.PATH, WEIR_TOKEN: 'token' },
  });
  try {
    let printed = '';
    follow.stdout.on('data', (data) => {
      printed += data;
    });
    const shown = () => printed.match(/user=\w+/g) ?? [];
    await until('the first refusals', () => shown().length > 0);
    const first = shown();
    const users = Array.from({ length: 20 }, (_, at) => `u${at}`);
    for (const value of users)
      for (let times = 0; times < 2; times++)
        await service.ask({ domain: 'demo', descriptors: [{ entries: [{ key: 'user', value }] }] });
    await until('all refusals', () => shown().length >= first.length + 20);
    expect(shown()).toEqual([...first, ...users.map((user) => `user=${user}`)]);
  } finally {
    follow.kill();
  }
});
