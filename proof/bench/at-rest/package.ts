import { mkdirSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { temporaryFolder, withCleanup } from '../../processes/cleanup.ts';
import { run } from '../../processes/run-program.ts';

const PROJECT = fileURLToPath(new URL('../../..', import.meta.url));
const NPM_LIMIT_MS = 120_000;

/** The size of the npm package, packed and installed in an empty folder. */
interface PackageSize {
  readonly packedBytes: number;
  readonly installedBytes: number;
  /** The number of installed packages, itself included. */
  readonly packages: number;
}

export const packageSize = (): Promise<PackageSize> =>
  withCleanup(async (onEnd) => {
    const aside = temporaryFolder('rest-package', onEnd);
    const folder = join(aside, 'empty');
    mkdirSync(folder);
    const npm = (cwd: string, ...args: readonly string[]) => run('npm', args, { cwd, limitMs: NPM_LIMIT_MS });
    await npm(PROJECT, 'pack', '--ignore-scripts', '--pack-destination', aside);
    const tarball = join(aside, readdirSync(aside).find((name) => name.endsWith('.tgz')) ?? '');
    await npm(folder, 'install', '--ignore-scripts', '--offline', '--no-audit', '--no-fund', tarball);
    const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' });
    const files = paths.map((path) => statSync(join(folder, path))).filter((file) => file.isFile());
    return {
      packedBytes: statSync(tarball).size,
      installedBytes: files.reduce((sum, { size }) => sum + size, 0),
      packages: paths.filter((path) => /(^|\/)node_modules\/(@[^/]+\/)?[^/@.]+\/package\.json$/.test(path)).length,
    };
  });
