import '../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { type Redis, startRedis } from '../helpers/redis.ts';
import { eventually } from '../helpers/until.ts';
import { MAIN, startWeir, type Weir } from '../helpers/weir.ts';

// The commands of "Questions of a bad day" in docs/runbooks.md, each in its situation.

const rulesWith = (requests: number): string => `
domain: shop
descriptors:
  - {key: customer, rate_limit: {unit: hour, requests_per_unit: ${requests}}}
`;

/** The commands below each heading of the section. */
function readCommands(): ReadonlyMap<string, readonly string[]> {
  const page = readFileSync(join(__dirname, '../../docs/runbooks.md'), 'utf8');
  const [, section = ''] = /^## Questions of a bad day$(.*?)^## /ms.exec(page) ?? [];
  const parts = section.split(/^### /m).slice(1);
  return new Map(
    parts.map((part) => [
      part.slice(0, part.indexOf('\n')),
      Array.from(part.matchAll(/^npx weir .*$/gm), ([command]) => command),
    ]),
  );
}

interface Ran {
  readonly code: number;
  readonly stdout: string;
}

const commands = readCommands();
let folder: string;
let redis: Redis;
let weir: Weir;
/** Another instance, with rule files of its own. */
let other: Weir;

function write(name: string, text: string): void {
  writeFileSync(join(folder, `${name}.new`), text);
  renameSync(join(folder, `${name}.new`), join(folder, name));
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'bad-day-'));
  mkdirSync(join(folder, 'bin'));
  writeFileSync(join(folder, 'bin/npx'), `#!/bin/sh\nshift\nexec "${process.execPath}" "${MAIN}" "$@"\n`);
  chmodSync(join(folder, 'bin/npx'), 0o755);
  for (const name of ['rules.yaml', 'other.yaml']) write(name, rulesWith(100));
  write('proposed.yaml', rulesWith(60));
  redis = await startRedis();
  const env = { ADMIN_TOKEN: 'token', REDIS_URL: redis.url, STORE_TIMEOUT: '2s', USE_STATSD: 'false' };
  [weir, other] = (await Promise.all(
    ['rules.yaml', 'other.yaml'].map((rules) => startWeir(env, { args: ['--rules', rules], cwd: folder })),
  )) as [Weir, Weir];
});
afterAll(async () => {
  await weir.stop();
  await other.stop();
  await redis.stop();
  rmSync(folder, { recursive: true });
});

/** Runs a command of the page as an operator would, in a shell. */
function run(command: string): Promise<Ran> {
  const env = {
    PATH: `${join(folder, 'bin')}${delimiter}${process.env.PATH}`,
    WEIR_TARGET: `localhost:${weir.debugPort}`,
    WEIR_TOKEN: 'token',
    NO_COLOR: '1',
  };
  return promisify(execFile)('sh', ['-c', command], { cwd: folder, env }).then(
    ({ stdout }) => ({ code: 0, stdout }),
    ({ code, stdout }: Ran) => ({ code, stdout }),
  );
}

/** Repeats a command until its output is as expected, which takes a poll of a file or of the store. */
async function runUntil(command: string, expected: RegExp): Promise<Ran> {
  let ran: Ran = { code: -1, stdout: '' };
  await eventually(
    async () => {
      ran = await run(command);
      return expected.test(ran.stdout);
    },
    () => `${command}: ${ran.stdout} does not match ${expected}`,
  );
  return ran;
}

async function ask(key: string, value: string, hits: number): Promise<number> {
  const body = JSON.stringify({ domain: 'shop', hits_addend: hits, descriptors: [{ entries: [{ key, value }] }] });
  return (await fetch(`http://127.0.0.1:${weir.httpPort}/json`, { method: 'POST', body })).status;
}

const commandsOf = (heading: string): readonly [string, string, string] => {
  const [one = '', two = '', three = ''] = commands.get(heading) ?? [];
  return [one, two, three];
};

test('each question takes two commands at most, besides letting a customer in', () => {
  const numbers = Object.fromEntries(Array.from(commands, ([heading, all]) => [heading, all.length]));
  expect(numbers).toEqual({
    'Does it work, and since when not?': 1,
    'Is the store slow?': 1,
    'Why is a client not limited?': 1,
    'How do I let one customer in?': 3,
    'How do I lower a limit safely?': 2,
    'Why is my change not in force?': 2,
    'What takes the memory?': 1,
    'Which rule is the busiest?': 1,
  });
});

test('what the store took is on the first screen', async () => {
  const [status] = commandsOf('Is the store slow?');
  await runUntil(
    status,
    /^ +p50 and p99: [\d.]+ ms and [\d.]+ ms of the last minute, [\d.]+ ms and [\d.]+ ms of the last day$/m,
  );
});

test('a typo in a key is listed with the rule that was meant', async () => {
  const [unmatched] = commandsOf('Why is a client not limited?');
  expect(await ask('custmer', 'ann', 1)).toBe(200);
  const { stdout } = await run(unmatched);
  expect(stdout).toContain('shop custmer=ann');
  expect(stdout).toContain('nearest: shop.customer (rules.yaml:4)  customer=');
});

test('one customer is let in, the audit log shows it, and it is removed again', async () => {
  const [set, audit, remove] = commandsOf('How do I let one customer in?');
  expect(await ask('customer', 'ann', 101)).toBe(429);
  expect((await run(set)).code).toBe(0);
  expect(await ask('customer', 'ann', 101)).toBe(200);
  expect((await run(audit)).stdout).toMatch(
    /admin {2}override set shop customer=ann: none → exempt until \S+Z {2}reason: ticket 7\n$/,
  );
  expect((await run(remove)).stdout).toMatch(
    /^removed: shop customer=ann {2}exempt until \S+Z {2}by admin: ticket 7\n$/,
  );
  expect(await ask('customer', 'ann', 101)).toBe(429);
});

test('a lower limit shows the keys that it would refuse before it is in force', async () => {
  const [load, show] = commandsOf('How do I lower a limit safely?');
  expect((await run(load)).code).toBe(0);
  let customers = 0;
  let shown = '';
  await eventually(
    async () => {
      await ask('customer', `bob-${++customers}`, 80);
      shown = (await run(show)).stdout;
      return /newly refused: \d+ keys?\n +\d+ {2}customer=bob-/.test(shown);
    },
    () => shown,
  );
  expect((await run('npx weir audit')).stdout).toMatch(
    /candidate: none → 1 rule, hash \w+ {2}reason: 60 instead of 100\n/,
  );
});

test('a bad rule file is named with its line, and all its problems are listed', async () => {
  const [status, check] = commandsOf('Why is my change not in force?');
  write('rules.yaml', rulesWith(60).replace('hour', 'fortnight'));
  const { code, stdout } = await runUntil(status, /newer rules are invalid, and the previous ones stay in force/);
  expect(stdout).toContain('rules.yaml:4: ');
  expect(stdout).toContain("'fortnight'");
  expect(code).toBe(1);
  expect((await run(check)).code).toBe(1);
  write('rules.yaml', rulesWith(100));
  await runUntil(status, /^HEALTHY /);
});

test('a change that has reached only one instance is noticed', async () => {
  const [status, check] = commandsOf('Why is my change not in force?');
  write('rules.yaml', rulesWith(60));
  const { code, stdout } = await runUntil(status, /and this instance have different rules/);
  expect(stdout).toMatch(/^rules +1 rule from rules\.yaml, hash \w+, loaded .* ago$/m);
  expect(code).toBe(1);
  expect((await run(check)).code).toBe(0);
  write('other.yaml', rulesWith(60));
  expect((await runUntil(status, /^HEALTHY /)).code).toBe(0);
});

test('the memory is listed by owner', async () => {
  const [status] = commandsOf('What takes the memory?');
  const { stdout } = await run(status);
  for (const owner of ['all processes', 'deciders', 'control process', 'of which JavaScript heaps'])
    expect(stdout).toMatch(new RegExp(`^(memory)? +${owner}: \\d+\\.\\d MiB$`, 'm'));
  expect(stdout).toMatch(/^ +of which buffers for callers: \d+\.\d MiB of at most \d+\.\d MiB$/m);
});

test('the busiest rule comes first', async () => {
  const [top] = commandsOf('Which rule is the busiest?');
  await ask('customer', 'carl', 5);
  expect((await run(top)).stdout).toMatch(/^shop\.customer {2}[\d,]+ hits in the last minute\n/);
});

test('a Redis that is down is reported with the time and the reason, until it answers again', async () => {
  const [status] = commandsOf('Does it work, and since when not?');
  await redis.stop();
  const { code, stdout } = await runUntil(status, /the store has not answered since \d{4}-\S+Z: /);
  expect(stdout).toMatch(/^FAILING /);
  expect(code).toBe(2);
  await redis.restart();
  await runUntil(status, /^HEALTHY /);
});
