import '../../helpers/realm.ts';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runRuleTests } from '../../../src/parts/rule-tests/rule-tests.ts';

const folder = mkdtempSync(join(tmpdir(), 'rule-tests-'));

const RULES = `domain: demo
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: 2 }
  - key: path
    value: /login*
    descriptors:
      - { key: method, rate_limit: { unlimited: true } }
`;
writeFileSync(join(folder, 'rules.yaml'), RULES);

async function results(tests: string, env: Record<string, string> = {}) {
  const file = join(folder, 'tests.yaml');
  writeFileSync(file, tests);
  const { lines, failed } = await runRuleTests([file], undefined, env);
  return { lines: lines.map((line) => line.replaceAll(`${folder}/`, '')), failed };
}

const testOf = (descriptor: string): string =>
  `rules: rules.yaml\ntests:\n  - { domain: demo, descriptors: ['${descriptor}'], expect: { rules: demo.user } }\n`;

test('a comma in a value of a test is written with a backslash, which nothing else may follow', async () => {
  const browser = String.raw`user=Mozilla/5.0 (KHTML\, like Gecko)`;
  expect(await results(testOf(browser))).toEqual({ lines: [`ok     tests.yaml:3: demo ${browser}`], failed: 0 });
  const { lines, failed } = await results(testOf(String.raw`user=a\d`));
  expect(failed).toBe(1);
  expect(lines[0]).toContain('FAILED tests.yaml:3: a backslash in a descriptor must be written');
});

test('passing tests check the rule, the answer and the remaining hits, with new counters for each', async () => {
  const tests = `rules: rules.yaml
tests:
  - name: a user has two requests
    domain: demo
    descriptors: [user=alice]
    times: 2
    expect: { code: OK, rules: demo.user, remaining: 0 }
  - name: and no third
    domain: demo
    descriptors: [user=alice, 'path=/login,method=GET']
    times: 3
    expect: { code: OVER_LIMIT, rules: [demo.user, 'demo.path_/login*.method'], remaining: [0, any] }
  - domain: demo
    descriptors: [{ path: /login?a=1, method: POST }, { color: red }]
    hits: 5
    expect: { code: OK, rules: ['demo.path_/login*.method', none] }
`;
  expect(await results(tests)).toEqual({
    lines: [
      'ok     tests.yaml:3: a user has two requests',
      'ok     tests.yaml:8: and no third',
      'ok     tests.yaml:13: demo path=/login?a=1,method=POST color=red',
    ],
    failed: 0,
  });
});

test('tests check which required keys a request lacks', async () => {
  writeFileSync(join(folder, 'required.yaml'), `domain: demo\nrequire: [user]\ndescriptors: []\n`);
  const tests = `rules: required.yaml
tests:
  - { domain: demo, descriptors: [path=/], expect: { code: OVER_LIMIT, rules: demo.missing_user, missing: user } }
  - { domain: demo, descriptors: [user=a], expect: { code: OK, missing: user } }
`;
  const { lines, failed } = await results(tests);
  expect(failed).toBe(1);
  expect(lines[0]).toMatch(/^ok /);
  expect(lines[1]?.split('\n').map((line) => line.trim())).toEqual([
    'FAILED tests.yaml:4: demo user=a',
    'expected missing user, got none',
  ]);
});

test('tests check the rule of a request as well as the requirement that it does not meet', async () => {
  const requirement = '{ keys: [user], limit: { unit: minute, requests_per_unit: 3 } }';
  writeFileSync(
    join(folder, 'strict.yaml'),
    `domain: demo\nrequire: ${requirement}\ndescriptors: [{ key: path, rate_limit: { unit: minute, requests_per_unit: 9 } }]\n`,
  );
  const test = (expected: string) =>
    `  - { domain: demo, descriptors: [path=/], expect: { code: OK, missing: user, ${expected} } }\n`;
  const { lines, failed } = await results(
    `rules: strict.yaml\ntests:\n${test('rules: demo.missing_user, remaining: 2')}${test('rules: demo.path, remaining: 8')}${test('remaining: 8')}`,
  );
  expect(lines.map((line) => line.slice(0, 2))).toEqual(['ok', 'ok', 'FA']);
  expect(failed).toBe(1);
});

test('failing tests show the expected and the actual answer, and the reason', async () => {
  const tests = `rules: rules.yaml
tests:
  - domain: demo
    descriptors: [user=alice, color=red]
    expect: { code: OVER_LIMIT, rules: [demo.users, demo.color], remaining: [5, 1] }
`;
  const { lines, failed } = await results(tests);
  expect(failed).toBe(1);
  expect(lines[0]?.split('\n').map((line) => line.trim())).toEqual([
    'FAILED tests.yaml:3: demo user=alice color=red',
    'expected OVER_LIMIT, got OK',
    'user=alice: expected rule demo.users, got demo.user: rule demo.user (rules.yaml:3)',
    'user=alice: expected 5 remaining, got 1: rule demo.user (rules.yaml:3)',
    expect.stringContaining('color=red: expected rule demo.color, got none: level 1: no rule has the key'),
    expect.stringContaining('color=red: expected 1 remaining, got none'),
  ]);
});

test('limits that would have refused are expected by their rules', async () => {
  const expecting = (expected: string) =>
    results(
      `rules: rules.yaml\ntests: [{ domain: demo, descriptors: [user=a], times: 3, expect: { would_refuse: ${expected} } }]\n`,
      { SHADOW_MODE: 'true' },
    );
  expect((await expecting('demo.user')).failed).toBe(0);
  expect((await expecting('none')).lines).toEqual([
    expect.stringContaining('expected would_refuse none, got demo.user'),
  ]);
});

test('modes are taken from the environment', async () => {
  const tests = 'rules: rules.yaml\ntests: [{ domain: demo, descriptors: [user=a], times: 3, expect: { code: OK } }]\n';
  expect((await results(tests)).failed).toBe(1);
  expect((await results(tests, { SHADOW_MODE: 'true' })).failed).toBe(0);
});

test.each(
  Object.entries({
    'tests: []': 'tests.yaml:1: rules must name a rule file or directory, got nothing',
    'rules: rules.yaml\ntests: []': 'tests.yaml:1: tests must contain at least one test, got none',
    'rules: nowhere.yaml\ntests: [{domain: d, descriptors: [a=b], expect: {}}]': 'cannot be read: ENOENT',
    'rules: rules.yaml\ntests:\n- {domain: d, descriptors: [a], expect: {}}':
      "tests.yaml:3: a descriptor must be key=value[,key=value…], got 'a'",
    'rules: rules.yaml\ntests:\n- {domain: d, descriptors: [a=b], expect: {code: MAYBE}}':
      "tests.yaml:3: code must be OK or OVER_LIMIT, got 'MAYBE'",
    'rules: rules.yaml\ntests:\n- {domain: d, descriptors: [a=b], expects: {}}':
      "tests.yaml:3: unknown key 'expects' of a test; expected one of name, domain",
    'rules: [': 'tests.yaml:1: ',
  }),
)('%j is not a valid test file', async (tests, reason) => {
  const { lines, failed } = await results(tests);
  expect({ line: lines[0], failed }).toEqual({ line: expect.stringContaining(reason), failed: 1 });
});
