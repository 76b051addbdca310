import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** Runs a program to its end. @returns what it prints */
export const runIn = (cwd: string, command: string, args: readonly string[]): Promise<string> =>
  promisify(execFile)(command, args, { cwd, maxBuffer: 1 << 26 }).then(({ stdout }) => stdout);

/** An npm package that was packed, and installed offline and without scripts in a folder with nothing else. */
export async function installPacked(project: string): Promise<{ readonly folder: string; readonly tarball: string }> {
  const aside = mkdtempSync(join(tmpdir(), 'package-'));
  const folder = join(aside, 'empty');
  mkdirSync(folder);
  await runIn(project, 'npm', ['pack', '--ignore-scripts', '--pack-destination', aside]);
  const [packed = ''] = readdirSync(aside).filter((name) => name.endsWith('.tgz'));
  const tarball = join(aside, packed);
  const quietly = ['--ignore-scripts', '--offline', '--no-audit', '--no-fund', '--cache', join(aside, 'cache')];
  await runIn(folder, 'npm', ['install', ...quietly, tarball]);
  return { folder, tarball };
}
