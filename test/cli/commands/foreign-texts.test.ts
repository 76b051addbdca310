import '../../helpers/realm.ts';
import { type Administered, startAdministered } from '../../helpers/administered.ts';
import { runCommand } from '../../helpers/command.ts';

const RULES = `
domain: demo
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 1, alignment: first_hit}}
`;

/** Clears a screen, sets a window's title, forges a line, and turns text around. */
const HOSTILE = '\u001b[2J\u001b]0;pwn\u0007x\nfake: OK\r\u009b31m\u007f\u202e';
const SHOWN = String.raw`\x1b[2J\x1b]0;pwn\x07x\x0afake: OK\x0d\x9b31m\x7f\u202e`;
const BROWSER = 'Mozilla/5.0 (KHTML, like Gecko) a\\b=c';
const BROWSER_SHOWN = String.raw`user=Mozilla/5.0 (KHTML\, like Gecko) a\\b=c`;

let service: Administered;
beforeAll(async () => {
  service = await startAdministered(RULES, { EXPLAIN_SAMPLE: '100', DECISION_LOG: 'all', LOG_LEVEL: 'debug' });
  for (const value of [HOSTILE, BROWSER])
    for (const key of ['user', 'user', 'usr'])
      await service.ask({
        domain: key === 'usr' ? `demo${HOSTILE}` : 'demo',
        descriptors: [{ entries: [{ key, value }] }],
      });
});
afterAll(() => service.stop());

const run = async (...args: readonly string[]) => {
  const target = ['--target', `localhost:${service.weir.debugPort}`];
  const { stdout, stderr } = await runCommand([...args, ...target], { env: { WEIR_TOKEN: 'token' } });
  return stdout + stderr;
};

/** Control characters for terminals, except line breaks. */
const CONTROLS = /[^\P{Cc}\n]|\p{Bidi_Control}/u;

/** All texts in a value. */
function textsIn(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

const DESCRIPTOR = `user=${SHOWN}`;
test.each([
  ['explain', 'demo', DESCRIPTOR],
  ['get', 'demo', DESCRIPTOR],
  ['get'],
  ['top'],
  ['top', '--by', 'refusals'],
  ['refusals'],
  ['unmatched'],
  ['override', 'set', 'demo', DESCRIPTOR, 'block', '--for', '1h', '--reason', `a${HOSTILE}`],
  ['override', 'list'],
  ['override', 'remove', 'demo', DESCRIPTOR, '--reason', `a${HOSTILE}`],
  ['reset', 'demo', DESCRIPTOR, '--reason', `a${HOSTILE}`],
  ['audit'],
])("%s shows a caller's control characters as escapes, and keeps their values in JSON", async (...args) => {
  const text = await run(...args);
  expect(text).toContain(SHOWN);
  expect(text).not.toMatch(CONTROLS);
  if (args[0] === 'reset' || args[1] === 'remove') return;
  const json = await run(...args, '--json');
  expect(json).not.toMatch(CONTROLS);
  expect(textsIn(JSON.parse(json)).some((one) => one.includes(HOSTILE))).toBe(true);
});

test.each([['top'], ['get'], ['refusals'], ['unmatched']])(
  'the descriptor that %s prints can be pasted into another command',
  async (command) => {
    expect(await run(command)).toContain(BROWSER_SHOWN.replace('user', command === 'unmatched' ? 'usr' : 'user'));
    expect(await run('explain', 'demo', BROWSER_SHOWN)).toContain('2 + 1 = 3 > 1');
    expect(await run('get', 'demo', BROWSER_SHOWN)).toContain('2 used, 0 left');
  },
);

test('explain notes an unescaped comma, and get refuses it and shows how to escape it', async () => {
  const unescaped = 'user=Mozilla/5.0 (KHTML, like Gecko)';
  expect(await run('explain', 'demo', unescaped)).toContain(
    String.raw`note: ' like Gecko)' is an entry without a value; a comma in a value is written \,`,
  );
  expect(await run('get', 'demo', unescaped)).toContain(String.raw`; a comma in a value is written \,`);
});

test('log lines contain no control characters of callers', async () => {
  await service.weir.waitFor('got descriptor: (user=');
  expect(service.weir.output()).not.toMatch(CONTROLS);
});
