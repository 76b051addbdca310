import '../../helpers/realm.ts';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runCommand } from '../../helpers/command.ts';

const HOSTILE = '\u001b]0;pwn\u0007\nfake: OK\r\u009b31m\u007f\u202e,x';
const CONTROLS = /[^\P{Cc}\n]|\p{Bidi_Control}/u;

const folder = mkdtempSync(join(tmpdir(), 'foreign-files-'));
const at = (name: string): string => join(folder, name);

const TIME_MS = 1_767_600_000_000;
const recorded = Array.from({ length: 3 }, (_, second) => ({
  ...{ time: TIME_MS + second * 1_000, domain: 'demo' },
  descriptors: [{ entries: [{ key: 'user', value: HOSTILE }] }],
}));
const logged = recorded.map(({ time }) => ({ start_time: new Date(time).toISOString(), [HOSTILE]: HOSTILE }));
const named = logged.map(({ start_time }, at) => ({ start_time, 'user\u202e\u009b31m': `u${at % 2}` }));
const linesOf = (values: readonly object[]): string => values.map((one) => `${JSON.stringify(one)}\n`).join('');
const ruleOf = (value: string): string =>
  `domain: demo\ndescriptors:\n  - { key: user, rate_limit: { unit: ${value}, requests_per_unit: 1 } }\n`;
writeFileSync(at('recording.ndjson'), `${linesOf(recorded)}{"${HOSTILE}\n`);
writeFileSync(at('access.log'), linesOf(logged));
writeFileSync(at('named.log'), linesOf(named));
writeFileSync(at('rules.yaml'), ruleOf('minute'));
writeFileSync(at('wrong.yaml'), ruleOf(String.raw`"\e]0;pwn\a\u202e\x9b31m"`));
const NAME = String.raw`\e]0;pwn\a\u202e\x9b31m`; // an escape sequence between double quotes in YAML
writeFileSync(at('hostile.yaml'), ruleOf('minute').replace('key: user', `key: "k${NAME}"`));
writeFileSync(
  at('tests.yaml'),
  `rules: rules.yaml\ntests:\n  - { name: "a name${NAME}", domain: demo, descriptors: [user=a], expect: { code: OK } }\n`,
);

async function run(...args: readonly string[]): Promise<string> {
  const { stdout, stderr } = await runCommand(args.map((one) => (/\.(yaml|log|ndjson)$/.test(one) ? at(one) : one)));
  return stdout + stderr;
}

test.each([
  [
    ['replay', '--rules', 'rules.yaml', 'recording.ndjson'],
    String.raw`demo user=\x1b]0;pwn\x07\x0afake: OK\x0d\x9b31m\x7f\u202e\,x`,
  ],
  [['replay', '--rules', 'rules.yaml', '--json', 'recording.ndjson'], '"refused": 2'],
  [['replay', '--learn', 'access.log'], 'fake: OK'],
  [['replay', '--learn', 'named.log'], String.raw`header_name: "user\u202e\u009b31m"`],
  [['advise', '--rules', 'rules.yaml', 'recording.ndjson'], 'warning: '],
  [['diff', 'rules.yaml', 'hostile.yaml'], String.raw`+ demo.k\x1b]0;pwn\x07\u202e\x9b31m: `],
  [['diff', '--json', 'rules.yaml', 'hostile.yaml'], String.raw`\u001b]0;pwn\u0007\u202e\u009b31m`],
  [['test', 'tests.yaml'], String.raw`a name\x1b]0;pwn\x07\u202e\x9b31m`],
  [['check', '--format', 'json', 'wrong.yaml'], String.raw`'\u001b]0;pwn\u0007\u202e\u009b31m'`],
  [['check', '--format', 'sarif', 'wrong.yaml'], String.raw`'\u001b]0;pwn\u0007\u202e\u009b31m'`],
  [['check', '--format', 'github', 'wrong.yaml'], String.raw`'\x1b]0;pwn\x07\u202e\x9b31m'`],
  [['check', 'wrong.yaml'], String.raw`'\x1b]0;pwn\x07\u202e\x9b31m'`],
])('weir %j prints texts from files without control characters', async (args, shown) => {
  const text = await run(...args);
  expect(text).toContain(shown);
  expect(text).not.toMatch(CONTROLS);
});
