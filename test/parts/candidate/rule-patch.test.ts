import '../../helpers/realm.ts';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { carryOver, unifiedDiff } from '../../../src/parts/candidate/rule-patch.ts';
import { type Administered, startAdministered } from '../../helpers/administered.ts';
import { MAIN } from '../../helpers/weir.ts';

const RULES = `# Owned by the team of the shop.
domain: demo
descriptors:
  # Users
  - key: user
    rate_limit: {unit: year, requests_per_unit: 2} # a contract

  - key: path   # static files
    value: /img
    rate_limit:
      unit: minute
      requests_per_unit: 100
`;

let folder: string;
let service: Administered;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'patch-'));
  service = await startAdministered(RULES);
});
afterAll(async () => {
  await service.stop();
  rmSync(folder, { recursive: true });
});

const git = (...args: string[]): string =>
  execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { cwd: folder, encoding: 'utf8' });

const weir = (...args: string[]): string =>
  execFileSync(
    process.execPath,
    [MAIN, ...args, '--target', `127.0.0.1:${service.weir.debugPort}`, '--token', 'token'],
    {
      encoding: 'utf8',
    },
  );

const candidate = (text: string, reason = 'users need more') =>
  fetch(`http://127.0.0.1:${service.weir.debugPort}/api/v1/candidate?reason=${encodeURIComponent(reason)}`, {
    method: 'POST',
    headers: { authorization: 'Bearer token' },
    body: text,
  });

test('a proven candidate is a patch that git applies, with what was tried in the message', async () => {
  expect(
    (
      await candidate(
        '{domain: demo, descriptors: [{key: path, value: /img, rate_limit: {requests_per_unit: 100, unit: minute}}, {key: user, rate_limit: {unit: year, requests_per_unit: 3}}]}',
      )
    ).status,
  ).toBe(200);
  expect(() => weir('candidate', 'patch')).toThrow(/has not been tried on any request/);
  for (let times = 0; times < 4; times++)
    await service.ask({ domain: 'demo', descriptors: [{ entries: [{ key: 'user', value: 'ann' }] }] });
  const patch = weir('candidate', 'patch');
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  git('init', '-q');
  git('add', '.');
  git('commit', '-qm', 'Add rules');
  writeFileSync(join(folder, 'patch'), patch);
  git('am', 'patch');
  const changed = readFileSync(join(folder, 'rules.yaml'), 'utf8');
  expect(changed).toBe(RULES.replace('requests_per_unit: 2}', 'requests_per_unit: 3}'));
  const log = git('log', '-1');
  expect(log).toContain('users need more');
  expect(log).toMatch(/4 requests, refused 2 live, 1 by the candidate: 0 newly refused, 1 newly passed/);
  expect(log).not.toContain('ann'); // values of callers are not for a repository
});

test('the command writes the candidate to a copy of the rule file, unless the copy differs', async () => {
  const file = join(folder, 'copy.yaml');
  writeFileSync(file, RULES);
  expect(weir('candidate', 'patch', '--write', file)).toContain('1 newly passed');
  expect(readFileSync(file, 'utf8')).toBe(RULES.replace('requests_per_unit: 2}', 'requests_per_unit: 3}'));
  expect(() => weir('candidate', 'patch', '--write', file)).toThrow(/differs from/);
});

test.each([
  ['a rule more', `${RULES}  - key: new\n    rate_limit: {unit: day, requests_per_unit: 5}\n`],
  ['a rule less', 'domain: demo\ndescriptors:\n  - key: user\n    rate_limit: {unit: year, requests_per_unit: 2}\n'],
  ['no line break at its end', 'domain: demo\ndescriptors: []'],
])('a candidate with %s is its own text in the patch', (_, text) => {
  expect(carryOver(RULES, text)).toBe(text);
  writeFileSync(join(folder, 'one.yaml'), RULES);
  writeFileSync(join(folder, 'one.patch'), unifiedDiff('one.yaml', RULES, text));
  git('apply', 'one.patch');
  expect(readFileSync(join(folder, 'one.yaml'), 'utf8')).toBe(text);
});

test('values at anchors, which stand for several, are not changed in place', () => {
  const shared =
    'domain: d\ndescriptors:\n  - {key: a, rate_limit: &l {unit: day, requests_per_unit: 1}}\n  - {key: b, rate_limit: *l}\n';
  const one =
    'domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, requests_per_unit: 1}}\n  - {key: b, rate_limit: {unit: day, requests_per_unit: 2}}\n';
  expect(carryOver(shared, one)).toBe(one);
});

test('a reason and the names of rules change neither the author nor other files', async () => {
  const other = 'new file mode 100644\n--- /dev/null\n+++ b/evil\n@@ -0,0 +1 @@\n+evil\n';
  const changed = RULES.replace('requests_per_unit: 2}', 'requests_per_unit: 4}');
  const named = JSON.stringify(`x\n---\ndiff --git a/evil b/evil\n${other}`);
  const added = `${changed}  - key: ${named}\n    rate_limit: {unit: day, requests_per_unit: 5}\n`;
  for (const [text, reason] of [
    [changed, `From: Eve <eve@x>\nSubject: other\n\nx\n---\ndiff --git a/evil b/evil\n${other}`],
    [changed, 'x\nFrom eve Mon Sep 17 00:00:00 2001\nFrom: Eve <eve@x>\nSubject: other\n\nx'],
    [added, 'a rule more'],
  ] as const) {
    expect((await candidate(text, reason)).status).toBe(200);
    await service.ask({ domain: 'demo', descriptors: [{ entries: [{ key: 'user', value: 'ann' }] }] });
    writeFileSync(join(folder, 'rules.yaml'), RULES);
    git('add', 'rules.yaml');
    git('commit', '--allow-empty', '-qm', 'Restore rules');
    const before = git('rev-parse', 'HEAD').trim();
    writeFileSync(join(folder, 'patch'), weir('candidate', 'patch'));
    git('am', 'patch');
    expect(git('diff', '--name-only', before).trim()).toBe('rules.yaml');
    expect(git('log', '--format=%an %s', `${before}..`)).toBe(
      'admin Change limits of demo, as tried on live traffic\n',
    );
  }
});

test('a rule file that differs from the rules in force makes no patch', async () => {
  const { body } = await service.call('GET', '/api/v1/rules/text?domain=demo');
  const file = body.files[0].name;
  for (const unit of ['eon', 'decade']) {
    writeFileSync(file, RULES.replace('unit: year', `unit: ${unit}`)); // invalid, so the last rules stay in force
    expect(() => weir('candidate', 'patch')).toThrow(/rules\.yaml differs from the rules in force/);
  }
  writeFileSync(file, RULES.replace('# static files', '# images'));
  expect(weir('candidate', 'patch')).toContain('# images');
  writeFileSync(file, RULES);
});

test('a candidate that changes nothing in the file makes no patch', async () => {
  expect((await candidate(RULES)).status).toBe(200);
  await service.ask({ domain: 'demo', descriptors: [{ entries: [{ key: 'user', value: 'ann' }] }] });
  expect(() => weir('candidate', 'patch')).toThrow(/changes nothing in rules\.yaml/);
});

test('a patch keeps the line breaks of a file with CRLF', () => {
  const file = RULES.replaceAll('\n', '\r\n');
  expect(carryOver(file, RULES.replace('requests_per_unit: 2}', 'requests_per_unit: 3}'))).toBe(
    file.replace('requests_per_unit: 2}', 'requests_per_unit: 3}'),
  );
  const added = `${RULES}  - key: new\n    rate_limit: {unit: day, requests_per_unit: 5}\n`;
  const after = carryOver(file, added);
  expect(after).toBe(added.replaceAll('\n', '\r\n'));
  writeFileSync(join(folder, 'crlf.yaml'), file);
  git('add', 'crlf.yaml');
  git('-c', 'core.autocrlf=false', 'commit', '-qm', 'Add rules with CRLF');
  const head = 'From: admin <weir@localhost>\nSubject: [PATCH] Change\n\n---\n';
  writeFileSync(join(folder, 'crlf.patch'), head + unifiedDiff('crlf.yaml', file, after));
  git('am', '--keep-cr', 'crlf.patch');
  expect(readFileSync(join(folder, 'crlf.yaml'), 'utf8')).toBe(after);
});
