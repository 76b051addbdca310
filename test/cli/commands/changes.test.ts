import '../../helpers/realm.ts';
import { type Administered, startAdministered } from '../../helpers/administered.ts';
import { runCommand } from '../../helpers/command.ts';

const RULES = `
domain: demo
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 5, alignment: first_hit}}
`;

let service: Administered;
beforeAll(async () => {
  service = await startAdministered(RULES, { AUDIT_LOG: 'stderr' });
});
afterAll(() => service.stop());

const run = (args: readonly string[], env: Readonly<Record<string, string>> = { WEIR_TOKEN: 'token' }) =>
  runCommand([...args, '--target', `localhost:${service.weir.debugPort}`], { env });

const WHY = ['--reason', 'a test'] as const;

test.each([
  [['override', 'set', 'demo', 'user', 'block', '--for', '1h']],
  [['override', 'remove', 'demo', 'user']],
  [['reset', 'demo', 'user']],
  [['grant', 'demo', 'user', '1']],
  [['reset', 'demo', '=alice']],
])('%j changes nothing, since an entry without = may be a mistake', async (args) => {
  expect(await run([...args, ...WHY])).toMatchObject({
    code: 1,
    stderr: `weir: a descriptor must be key=value[,key=value…], got '${args.find((one) => /user|=alice/.test(one))}'\n`,
  });
  expect(service.weir.output()).not.toContain('"change":');
});

test.each([
  [['override', 'set', 'demo', 'user=a', 'block', '--for', '999999999d']],
  [['record', '--for', '999999999d']],
  [['record', '--for', '0s']],
  [['record', '--for', '366d']],
])('the error for %j names the permitted durations', async (args) => {
  const { code, stderr } = await run([...args, ...WHY]);
  expect(stderr).toContain('expected a time from 1s to 365d, such as 30s, 15m, 2h or 7d.');
  expect(stderr).not.toContain('    at ');
  expect(code).toBe(1);
});

test('an unknown unit is shown as it was typed, with the known ones', async () => {
  expect(await run(['override', 'set', 'demo', 'user=a', '100/Fortnight', '--for', '1h', ...WHY])).toMatchObject({
    code: 1,
    stderr:
      "weir: expected a limit for one of second, minute, hour, day, week, month, year, got 'Fortnight' in '100/Fortnight'\n",
  });
});

test('a blank reason is refused', async () => {
  expect(await run(['reset', 'demo', 'user=a', '--reason', ' \t'])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('/reason must not be blank'),
  });
});

test('without a token, a command names the ways to set one', async () => {
  expect(await run(['reset', 'demo', 'user=a', ...WHY], {})).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/needs a token: set --token or WEIR_TOKEN to one of ADMIN_TOKEN, or /),
  });
});

test.each([[['--rule', 'demo.user']], [['--after', '0/']]])(
  'get with a descriptor refuses %j, which is for lists',
  async (flags) => {
    expect(await run(['get', 'demo', 'user=a', ...flags])).toMatchObject({
      code: 1,
      stderr: 'weir: --rule and --after apply to lists: they cannot be used with a descriptor\n',
    });
  },
);

test('a blocked descriptor is explained as blocked until the end of the override', async () => {
  const set = await run(['override', 'set', 'demo', 'user=blocked', 'block', '--for', '2h60m', ...WHY]);
  expect(set).toMatchObject({ code: 0, stderr: '' });
  expect(set.stdout).not.toContain('warning');
  const { stdout } = await run(['explain', 'demo', 'user=blocked']);
  expect(stdout).toMatch(/^OVER_LIMIT {2}an override blocks it\n/);
  expect(stdout).toMatch(/demo\.user: blocked by an override/);
  expect(stdout).toMatch(/OVER_LIMIT {2}blocked until \d{4}-\S+Z, passes in \d+ h/);
  expect(stdout).not.toContain('never passes');
  expect(stdout).not.toContain('0 per minute');
});

test.each([
  [['nowhere', 'user=a'], "no rules have the domain 'nowhere'; the nearest is 'demo'"],
  [['demo', 'usr=a'], "level 1: no rule has the key 'usr'; the nearest is demo.user"],
])(
  'an override of %j is set with a warning, since no rule matches it now',
  async ([domain = '', descriptor = ''], why) => {
    const { code, stdout } = await run(['override', 'set', domain, descriptor, 'block', '--for', '1h', ...WHY]);
    expect(code).toBe(0);
    expect(stdout).toContain(`\n  warning: it has no effect while the descriptor matches no rule: ${why}\n`);
  },
);
