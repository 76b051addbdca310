import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Case } from '../../conformance/src/case.ts';
import { loadCases } from '../../conformance/src/cases.ts';
import { asBadge, asJunit, asTap } from '../../conformance/src/reports.ts';
import { startReferenceUnderTest, startWeirUnderTest, testServer } from '../../proof/conformance/servers.ts';
import { referenceProgram } from '../helpers/reference.ts';
import { applyChange } from '../mutants/mutants.ts';
import { faults } from './faults.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const playsAll = process.env.CONFORMANCE_FAULTS === 'all';
/** Files that change in the running service, whose polls take seconds a case: by default some of the kinds of changes. */
const isPlayed = ({ id, profile }: Case): boolean =>
  playsAll || profile !== 'reload' || ['reload/016', 'reload/126', 'reload/128'].includes(id);
const failedOf = (results: Awaited<ReturnType<typeof testServer>>): readonly string[] =>
  results.flatMap(({ of: { id }, differences }) => (differences.length === 0 ? [] : [`${id}: ${differences[0]}`]));

test('Weir passes all profiles', async () => {
  expect(failedOf(await testServer(await startWeirUnderTest(), isPlayed))).toEqual([]);
});

test('envoyproxy/ratelimit passes all profiles that it claims', async () => {
  const server = await startReferenceUnderTest(await referenceProgram());
  const isClaimed = (one: Case): boolean => isPlayed(one) && !['recent', 'give-back', 'kuadrant'].includes(one.profile);
  expect(failedOf(await testServer(server, isClaimed))).toEqual([]);
});

const run = promisify(execFile);
const inTypeScript = (file: string, args: readonly string[]) =>
  run(process.execPath, ['--import', 'tsx', join(PROJECT, file), ...args], { cwd: PROJECT });

/** `CONFORMANCE_FAULTS=all` seeds every fault; else one. */
const seeded = faults.filter(({ what }) => playsAll || what === 'share_threshold has no effect');

test.each(seeded.map((fault) => [fault.what, fault] as const))('finds the fault: %s', async (_, fault) => {
  const folder = mkdtempSync(join(tmpdir(), 'fault-'));
  const isOfRuleFiles = fault.file.includes('/read/');
  try {
    await inTypeScript('test/conformance/build-fault.ts', [fault.what, folder]);
    const server = await startWeirUnderTest(join(folder, 'dist/main.js'));
    const isNeeded = ({ id, profile }: Case): boolean => (isOfRuleFiles ? id === 'reload/016' : profile !== 'reload');
    expect(failedOf(await testServer(server, isNeeded))).not.toEqual([]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('there are 20 faults, each of which changes the source once', () => {
  expect(faults).toHaveLength(20);
  for (const { file, change } of faults) {
    const text = readFileSync(join(PROJECT, file), 'utf8');
    expect(applyChange(text, change)).not.toBe(text);
  }
});

test('each case says why it matters, and cites its source', () => {
  const cases = loadCases();
  expect(new Set(cases.map(({ id }) => id)).size).toBe(cases.length);
  for (const { id, why, source, steps } of cases)
    expect([id, why.endsWith('.'), source.startsWith('https://'), steps.some(({ expect: wanted }) => wanted)]).toEqual([
      id,
      true,
      true,
      true,
    ]);
});

test('the command prints TAP, writes JUnit and a badge, and exits with 1 if a case fails', async () => {
  const server = await startWeirUnderTest();
  const folder = mkdtempSync(join(tmpdir(), 'kit-'));
  const [junit, badge] = [join(folder, 'junit.xml'), join(folder, 'badge.svg')];
  const { target } = server.addresses;
  const args = [
    '--target',
    target,
    '--rules-dir',
    server.rulesDir,
    '--only',
    '/02',
    '--junit',
    junit,
    '--badge',
    badge,
  ];
  const kit = (more: readonly string[]) => inTypeScript('conformance/src/main.ts', [...args, ...more]);
  try {
    const { stdout } = await kit(['--tap']);
    expect(stdout).toMatch(/^TAP version 14\n1\.\.\d+\nok 1 - protocol\/025 unknown domain\n/);
    expect(readFileSync(junit, 'utf8')).toMatch(/<testsuite name="protocol" tests="\d+" failures="0">/);
    expect(readFileSync(badge, 'utf8')).toContain('rls conformance');
    expect((await kit(['--list'])).stdout).toMatch(/^protocol\/025: unknown domain\n {2}A proxy .*\.\n {2}https:/);
    const failing = kit(['--rules-dir', folder, '--reload-timeout', '0.2']); // the server does not read this folder
    await expect(failing).rejects.toMatchObject({ code: 1, stdout: expect.stringContaining('FAILED protocol/025') });
  } finally {
    await server.stop();
    rmSync(folder, { recursive: true });
  }
});

test('reports escape what servers say', () => {
  const [of] = loadCases();
  if (!of) throw new Error('expected cases');
  const results = [{ of, outcome: 'failed', differences: ['came <a & "b">\u0000'], ms: 1 }] as const;
  expect(asJunit(results)).toContain('came &#60;a &#38; &#34;b&#34;&#62;?');
  expect(asTap(results)).toContain('not ok 1');
  expect(asBadge(results)).toContain('0 of 1');
});
