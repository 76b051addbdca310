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

describe('a suite of npm test that takes 35 s', () => {
  const recorded = Array.from({ length: 30 }, (_, at) => [`suite-${at}`, 4] as const);
  const durations = [...recorded, ['recorded-as-slow', 21]];
  const slow = ['slow', 35] as const;
  const tooLong = (measured: readonly (readonly [string, number])[]): unknown => {
    const script = `
      import { suitesThatTakeTooLong } from ${JSON.stringify(join(RUNNER, 'durations.js'))};
      const [measured, recorded] = ${JSON.stringify([measured, durations])};
      console.log(JSON.stringify(suitesThatTakeTooLong(measured, new Map(recorded))));`;
    const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
    return JSON.parse(stdout);
  };

  test('takes too long if the others take as long as recorded', () => {
    expect(tooLong([...recorded, slow])).toEqual([slow]);
  });

  test('is short enough if the others, too, take twice as long as recorded', () => {
    expect(tooLong([...recorded.map(([path, seconds]) => [path, seconds * 2] as const), slow])).toEqual([]);
  });

  test('takes too long whenever its recorded duration is too long', () => {
    expect(tooLong([...recorded, ['recorded-as-slow', 15]])).toEqual([['recorded-as-slow', 15]]);
  });

  test('is not judged in a run of a few suites', () => {
    expect(tooLong([...recorded.slice(0, 5), slow])).toEqual([]);
  });
});
