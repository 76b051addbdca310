/** `npm run release -- --dry-run`: what a tag does, except that nothing is published. */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { schemaFolder, schemaLocations } from '../../test/helpers/kubernetes-schemas.ts';
import { bubblewrap, helm, kubeconform } from '../../test/helpers/tools.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const KUBERNETES_VERSION = '1.34.0';

const usage = `Usage: npm run release -- --dry-run

Builds every artifact of a release from a clean clone of the last commit, and installs it: the npm packages in an empty
folder, the root file system of the image in a container, the chart by rendering it. Publishes nothing: a release is made by
pushing a tag vX.Y.Z, from which .github/workflows/release.yaml builds the same artifacts.

  --dry-run  required
  --help     prints this text
`;

const step = (what: string): void => console.log(`\n${what}`);
const run = (cwd: string, command: string, ...args: readonly string[]): string =>
  execFileSync(command, args, { cwd, encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'inherit'] });

async function dryRun(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'release-'));
  try {
    const clone = join(folder, 'clone');
    step('Cloning the last commit');
    run(folder, 'git', 'clone', '--quiet', '--no-local', '--depth', '1', `file://${PROJECT}`, clone);
    run(clone, 'npm', 'ci', '--no-audit', '--no-fund');
    cpSync(join(PROJECT, '.cache/bin'), join(clone, '.cache/bin'), { recursive: true }); // tools, which take minutes to build
    const out = join(folder, 'artifacts');
    const rootfs = join(folder, 'rootfs');
    step('Building the artifacts');
    const version = run(clone, 'npx', 'tsx', 'deploy/release/artifacts.ts', out, rootfs).trim();
    process.stdout.write(readFileSync(join(out, 'SHA256SUMS'), 'utf8'));
    run(out, 'sha256sum', '--check', '--quiet', 'SHA256SUMS');
    installPackages(join(folder, 'installed'), out, version);
    await runImage(rootfs, version);
    await renderChart(folder, join(out, `weir-${version}.tgz`));
    step(`Release ${version} can be made: push the tag v${version}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function installPackages(into: string, out: string, version: string): void {
  step('Installing the npm packages');
  mkdirSync(into);
  writeFileSync(join(into, 'package.json'), '{ "private": true, "type": "module" }');
  const packed = ['weir-rls', 'weir-client'].map((name) => join(out, `${name}-${version}.tgz`));
  run(into, 'npm', 'install', '--no-audit', '--no-fund', ...packed);
  expectEqual('weir --version', run(into, 'npx', 'weir', '--version').trim(), version);
  const program = `
    import { createEngine } from 'weir-rls/engine';
    import { createClient } from 'weir-client';
    console.log(typeof createEngine, typeof createClient);`;
  writeFileSync(join(into, 'imports.mjs'), program);
  expectEqual('imports', run(into, process.execPath, 'imports.mjs').trim(), 'function function');
  console.log(run(into, 'npx', 'weir', 'check', 'node_modules/weir-rls/config/rules.yaml').trim());
}

async function runImage(rootfs: string, version: string): Promise<void> {
  step('Running the image');
  for (const name of ['proc', 'dev']) mkdirSync(join(rootfs, name), { recursive: true }); // as a container engine does
  const isolation = ['--ro-bind', rootfs, '/', '--proc', '/proc', '--dev', '/dev', '--unshare-all', '--clearenv'];
  const weir = (...args: readonly string[]) => run(rootfs, bwrap, ...isolation, '/usr/bin/weir', ...args).trim();
  const bwrap = await bubblewrap();
  expectEqual('weir --version', weir('--version'), version);
  console.log(weir('check', '/app/config/rules.yaml'));
}

async function renderChart(folder: string, packed: string): Promise<void> {
  step('Rendering the chart');
  const rendered = join(folder, 'chart.yaml');
  writeFileSync(rendered, run(folder, await helm(), 'template', 'weir', packed, '--kube-version', KUBERNETES_VERSION));
  const locations = schemaLocations(await schemaFolder(KUBERNETES_VERSION)).flatMap((location) => [
    '-schema-location',
    location,
  ]);
  const versions = ['-strict', '-summary', '-kubernetes-version', KUBERNETES_VERSION];
  console.log(run(folder, await kubeconform(), ...versions, ...locations, rendered).trim());
}

function expectEqual(what: string, found: string, expected: string): void {
  if (found !== expected) throw new Error(`${what}: expected ${expected}, got ${found}`);
  console.log(`${what}: ${found}`);
}

const [flag, ...others] = process.argv.slice(2);
if (flag === '--dry-run' && others.length === 0) await dryRun();
else {
  process.stdout.write(usage);
  process.exitCode = flag === '--help' || flag === '-h' ? 0 : 1;
}
