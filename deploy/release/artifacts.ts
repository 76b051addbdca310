/**
 * Builds the artifacts of a release in a folder: `npx tsx deploy/release/artifacts.ts DIR [ROOTFS]`. The packed npm packages, the
 * packed chart, an SBOM for each of them and for the image, the notes of the release, and checksums of all.
 *
 * The release workflow publishes what this builds, and `npm run release -- --dry-run` installs it.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { helm } from '../../test/helpers/tools.ts';
import { addProject, assembleBase } from '../image/rootfs.ts';
import { showUsage } from '../usage.ts';
import { releaseNotes } from './notes.ts';
import { artifacts, billOfMaterials } from './sbom.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const usage = `Usage: npx tsx deploy/release/artifacts.ts DIR [ROOTFS]

Builds the artifacts of a release in DIR, which is created. Keeps the root file system of the image in ROOTFS, if given.
`;
const CHART = join(PROJECT, 'deploy/helm/weir');

const versionIn = (manifest: string): string => (JSON.parse(manifest) as { readonly version: string }).version;

/** @throws Error  the project, the client, rls-conformance, the chart or the changelog has another version */
export function commonVersion(read = (path: string): string => readFileSync(join(PROJECT, path), 'utf8')): string {
  const { version } = JSON.parse(read('package.json')) as { readonly version: string }; // npm's own file
  const chart = read('deploy/helm/weir/Chart.yaml');
  const found = {
    'client/package.json': versionIn(read('client/package.json')),
    'conformance/package.json': versionIn(read('conformance/package.json')),
    'version of Chart.yaml': /^version: (.*)$/m.exec(chart)?.[1],
    'appVersion of Chart.yaml': /^appVersion: (.*)$/m.exec(chart)?.[1],
    'CHANGELOG.md': releaseNotes(read('CHANGELOG.md'), version) === undefined ? 'no section' : version,
  };
  for (const [where, other] of Object.entries(found))
    if (other !== version) throw new Error(`package.json has ${version}, but ${where}: ${other}`);
  return version;
}

/**
 * Builds all artifacts.
 *
 * @param out     a folder, which is created
 * @param rootfs  a folder for the root file system of the image
 * @returns       the version
 */
export async function buildArtifacts(out: string, rootfs: string): Promise<string> {
  const version = commonVersion();
  mkdirSync(out, { recursive: true });
  const run = (command: string, ...args: readonly string[]): void =>
    void execFileSync(command, args, { cwd: PROJECT, stdio: ['ignore', 'ignore', 'inherit'] });
  run('npm', 'run', 'build');
  run('npm', 'run', 'build', '--workspace', 'rls-conformance');
  for (const workspace of [[], ['--workspace', 'weir-client'], ['--workspace', 'rls-conformance']])
    run('npm', 'pack', '--ignore-scripts', ...workspace, '--pack-destination', out);
  run(await helm(), 'package', CHART, '--destination', out);
  assembleBase(rootfs);
  addProject(rootfs);
  for (const artifact of artifacts)
    writeFileSync(
      join(out, `${artifact}-${version}.cdx.json`),
      `${JSON.stringify(billOfMaterials(artifact, rootfs), undefined, 2)}\n`,
    );
  writeFileSync(join(out, 'SHA256SUMS'), checksumsOf(out));
  writeFileSync(
    join(out, 'NOTES.md'),
    `${releaseNotes(readFileSync(join(PROJECT, 'CHANGELOG.md'), 'utf8'), version)}\n`,
  );
  return version;
}

/** Lines that `sha256sum --check` reads. */
const checksumsOf = (folder: string): string =>
  readdirSync(folder)
    .sort()
    .map(
      (name) =>
        `${createHash('sha256')
          .update(readFileSync(join(folder, name)))
          .digest('hex')}  ${name}\n`,
    )
    .join('');

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  showUsage(usage, 2);
  const [folder, rootfs] = process.argv.slice(2);
  if (folder === undefined) {
    process.stderr.write(`DIR is required\n\n${usage}`);
    process.exit(1);
  }
  const aside = mkdtempSync(join(tmpdir(), 'rootfs-'));
  process.once('exit', () => rmSync(aside, { recursive: true, force: true }));
  void buildArtifacts(resolve(folder), resolve(rootfs ?? aside)).then((version) => console.log(version));
}
