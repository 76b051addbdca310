import { spawnSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const RUNNER = __dirname;
const JEST = join(RUNNER, '../../node_modules/jest/bin/jest.js');

const withoutTool = `
let server;
beforeAll(() => { throw new Error('not installed: some-server is not on PATH'); });
afterAll(() => server.stop());
test('needs a server', () => {});
`;
const withTool = `
test('needs nothing', () => {});
test.skip('never runs on this system', () => {});
`;

/** Runs suites with the project's environment and reporter. */
function jest(env: NodeJS.ProcessEnv, suites: Readonly<Record<string, string>>) {
  const rootDir = mkdtempSync(join(tmpdir(), 'suites-'));
  for (const [name, text] of Object.entries(suites)) writeFileSync(join(rootDir, `${name}.test.js`), text);
  const config = JSON.stringify({
    rootDir,
    testEnvironment: join(RUNNER, 'environment.cjs'),
    reporters: ['default', join(RUNNER, 'reporter.js')],
  });
  const args = [JEST, '--config', config, '-w', '1'];
  const { status, stdout } = spawnSync(process.execPath, args, {
    env: { ...process.env, CI: 'false', TESTS: '', TMPDIR: rootDir, ...env },
    encoding: 'utf8',
  });
  return { status, stdout };
}

test('tests that need a missing tool are skipped, and the run tells which and why', () => {
  const { status, stdout } = jest({}, { 'without-tool': withoutTool, 'with-tool': withTool });
  expect(status).toBe(0);
  expect(stdout).toContain('  without-tool.test.js: not installed: some-server is not on PATH\n');
  expect(stdout).toContain('  with-tool.test.js: never runs on this system\n');
  expect(stdout).toMatch(/\n1 passed, 0 failed, 2 skipped\n$/);
});

test('on CI, tests that need a missing tool fail', () => {
  const { status, stdout } = jest({ CI: 'true' }, { 'without-tool': withoutTool });
  expect(status).toBe(1);
  expect(stdout).toMatch(/\n0 passed, [12] failed, 0 skipped\n$/);
});

test('a suite that cannot be loaded counts as failed', () => {
  const { status, stdout } = jest({}, { broken: 'syntax error' });
  expect(status).toBe(1);
  expect(stdout).toMatch(/\n0 passed, 1 failed, 0 skipped\n$/);
});

test('a suite takes too long if its recorded duration is more than 20 s', () => {
  const script = `
    import { suitesThatTakeTooLong } from ${JSON.stringify(join(RUNNER, 'durations.js'))};
    console.log(JSON.stringify(suitesThatTakeTooLong([['quick', 20], ['slow', 21]])));`;
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
  expect(JSON.parse(stdout)).toEqual([['slow', 21]]);
});
