import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { readValues } from '../../src/settings/values.ts';
import { MAIN } from '../helpers/weir.ts';

const readUnit = (name: string): string =>
  readFileSync(fileURLToPath(new URL(`../../deploy/systemd/${name}`, import.meta.url)), 'utf8');
const UNIT = readUnit('weir.service');

/** On a scale from 0 (nothing is permitted) to 10 (everything); `systemd-analyze security` calls up to 5 OK. */
const MAX_EXPOSURE = 2;

const analyze = (...args: readonly string[]): Promise<string> =>
  promisify(execFile)('systemd-analyze', args).then(({ stdout, stderr }) => stdout + stderr);

test('the unit sets variables that the service accepts', () => {
  const [, line = ''] = /^Environment=(.*)$/m.exec(UNIT) ?? [];
  expect(readValues(Object.fromEntries(line.split(' ').map((pair) => pair.split('=')))).warnings).toEqual([]);
});

test('the unit gives up after several failures to start', () => {
  const [, limits = ''] = /^\[Unit\]$(.*?)^\[/ms.exec(UNIT) ?? []; // elsewhere they have no effect
  expect(limits).toMatch(/^StartLimitIntervalSec=60\nStartLimitBurst=5$/m);
});

test("the unit's stop timeout is longer than the service drains", () => {
  const [, seconds] = /^TimeoutStopSec=(\d+)$/m.exec(UNIT) ?? [];
  const { DRAIN_DELAY: delayMs, DRAIN_TIMEOUT: timeoutMs } = readValues({ DRAIN_DELAY: '5s' });
  expect(UNIT).toContain('DRAIN_DELAY=5s');
  expect(Number(seconds) * 1_000).toBeGreaterThan(delayMs + timeoutMs);
});

describe('systemd-analyze, if it is installed,', () => {
  let version: number;
  let folder: string;
  let file: string;
  beforeAll(async () => {
    version = await analyze('--version').then(
      (text) => Number(/systemd (\d+)/.exec(text)?.[1]),
      () => 0,
    );
    folder = mkdtempSync(join(tmpdir(), 'systemd-'));
    file = writeUnit('weir.service');
  });

  /** systemd-analyze checks that the programs exist. */
  const writeUnit = (name: string): string => {
    const path = join(folder, name);
    const text = readUnit(name).replace('/usr/bin/node', process.execPath).replace('/opt/weir/dist/main.js', MAIN);
    writeFileSync(path, text);
    return path;
  };

  test.each(['weir.service', 'weir-guard.service'])('finds no problem in %s', async (name) => {
    if (version === 0) return;
    expect(await analyze('verify', '--man=no', writeUnit(name))).toBe('');
  });

  test('finds no problem in the unit with keys as credentials, as its comment shows', async () => {
    if (version < 250) return; // older versions lack %d
    const shown = Array.from(UNIT.matchAll(/^# {3}((?:LoadCredential|Environment)=.*)$/gm), ([, line]) => line);
    expect(shown).toHaveLength(3);
    const [, settings = ''] = /^Environment=(.*)$/.exec(shown.at(-1) ?? '') ?? [];
    const env = Object.fromEntries(settings.split(' ').map((pair) => pair.split('=')));
    expect(readValues(env).warnings).toEqual([]);
    const unit = join(folder, 'weir-tls.service');
    writeFileSync(unit, readFileSync(file, 'utf8').replace(/^\[Service\]$/m, `[Service]\n${shown.join('\n')}`));
    expect(await analyze('verify', '--man=no', unit)).toBe('');
  });

  test.each(['weir.service', 'weir-guard.service'])('rates %s as hardened', async (name) => {
    if (version < 250) return; // older versions lack --offline
    const text = await analyze('security', '--offline=true', '--no-pager', writeUnit(name));
    const [, exposure = ''] = /exposure level for [\w.-]+: ([\d.]+)/.exec(text) ?? [];
    expect(Number.parseFloat(exposure)).toBeLessThanOrEqual(MAX_EXPOSURE);
  });
});
