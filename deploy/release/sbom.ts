/**
 * Prints the bill of materials of what the project needs to run, as CycloneDX: `npm run --silent sbom`. npm makes it, from a copy that has
 * nothing of development: `npm sbom --omit dev` leaves out packages that development needs as well.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { showUsage } from '../../bench/usage.ts';
import { copyProductionPackages } from '../image/rootfs.ts';

export function billOfMaterials(): string {
  const aside = mkdtempSync(join(tmpdir(), 'sbom-'));
  try {
    const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
      readonly name: string; // npm's own file
      readonly devDependencies?: object;
    };
    const folder = join(aside, manifest.name); // which npm takes for the name
    mkdirSync(folder);
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ ...manifest, devDependencies: {} }));
    copyProductionPackages(folder);
    return execFileSync('npm', ['sbom', '--sbom-format', 'cyclonedx'], {
      cwd: folder,
      encoding: 'utf8',
      maxBuffer: 1 << 26,
    });
  } finally {
    rmSync(aside, { recursive: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  showUsage('Usage: npm run sbom\n\nPrints the bill of materials of what the project needs to run, as CycloneDX.\n');
  console.log(billOfMaterials());
}
