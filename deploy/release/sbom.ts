/**
 * Prints the bill of materials as CycloneDX: `npx tsx deploy/release/sbom.ts`. It lists the bundled packages, and OpenTelemetry,
 * which is optional for the npm package and included in the image. `npm sbom` cannot do this: to npm, all of them are
 * development dependencies.
 */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundledPackages, manifestIn } from '../build.ts';
import { optionalPackages } from '../image/rootfs.ts';
import { showUsage } from '../usage.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));

/** @see https://cyclonedx.org/docs/1.5/json/ */
async function billOfMaterials() {
  const bundled = await bundledPackages();
  const optional = optionalPackages().filter((folder) => !bundled.includes(folder));
  return {
    $schema: 'http://cyclonedx.org/schema/bom-1.5.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.5',
    version: 1,
    metadata: { component: componentIn('.', 'application') },
    components: [
      ...bundled.map((folder) => ({ ...componentIn(folder, 'library'), scope: 'required' })),
      ...optional.map((folder) => ({ ...componentIn(folder, 'library'), scope: 'optional' })),
    ],
  };
}

function componentIn(folder: string, type: 'application' | 'library') {
  const { name, version, license } = manifestIn(join(PROJECT, folder));
  const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`;
  const isExpression = /[ ()]/.test(license);
  return {
    type,
    'bom-ref': folder === '.' ? purl : `${purl}#${folder}`,
    name,
    version,
    purl,
    licenses: [isExpression ? { expression: license } : { license: { id: license } }],
  };
}

showUsage(`Usage: npx tsx deploy/release/sbom.ts

Prints the bill of materials as CycloneDX: the packages in the bundle, and the optional ones that the image includes.
`);
console.log(JSON.stringify(await billOfMaterials(), undefined, 2));
