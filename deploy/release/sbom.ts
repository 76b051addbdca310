/**
 * Prints the bill of materials of an artifact as CycloneDX: `npx tsx deploy/release/sbom.ts ARTIFACT [ROOTFS]`. `npm sbom`
 * cannot do this: to npm, all packages that the builds contain are development dependencies.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { manifestIn, type Package } from '../build.ts';
import { NODE_VERSION, optionalPackages } from '../image/rootfs.ts';
import { showUsage } from '../usage.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));

export const artifacts = ['weir-rls', 'weir-client', 'weir-chart', 'weir-image'] as const;
type Artifact = (typeof artifacts)[number];

const usage = `Usage: npx tsx deploy/release/sbom.ts ${artifacts.join('|')} [ROOTFS]

Prints the bill of materials of an artifact as CycloneDX. For weir-rls and weir-client, after a build, it lists the packages
in the bundle, and the optional ones; for weir-image what the root file system in the folder ROOTFS contains.
`;

/**
 * @param rootfs  the folder of the image's root file system
 * @see https://cyclonedx.org/docs/1.5/json/
 */
export function billOfMaterials(artifact: Artifact, rootfs?: string): object {
  const self = manifestIn(artifact === 'weir-client' ? join(PROJECT, 'client') : PROJECT);
  return {
    $schema: 'http://cyclonedx.org/schema/bom-1.5.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.5',
    version: 1,
    metadata: { component: subjectOf(artifact, self) },
    components: componentsOf(artifact, self, rootfs),
  };
}

function subjectOf(artifact: Artifact, { version, license }: Package): Component {
  const types = { 'weir-rls': 'npm', 'weir-client': 'npm', 'weir-chart': 'helm', 'weir-image': 'oci' } as const;
  const type = artifact === 'weir-image' ? 'container' : 'application';
  return component({ name: artifact, version, license, type, purlType: types[artifact] });
}

function componentsOf(artifact: Artifact, { version, license }: Package, rootfs = ''): readonly Component[] {
  const optional = optionalPackages().map((folder) => manifestIn(join(PROJECT, folder)));
  switch (artifact) {
    case 'weir-rls':
      return npmComponents([...bundled('dist')], optional);
    case 'weir-client':
      return npmComponents(bundled('client/dist'), []);
    case 'weir-chart':
      return [component({ name: 'weir', version, license, type: 'container', purlType: 'oci' })];
    case 'weir-image':
      return [
        component({ name: 'node', version: NODE_VERSION, license: 'MIT', type: 'platform', purlType: 'generic' }),
        ...debianComponents(rootfs),
        ...npmComponents([{ name: 'weir-rls', version, license }, ...bundled('dist'), ...optional], []),
      ];
  }
}

/** The packages whose code is in a build, from the file with their licences. */
function bundled(dist: string): readonly Package[] {
  const file = join(PROJECT, dist, 'LICENSES.txt');
  if (!existsSync(file)) throw new Error(`${file} does not exist: run npm run build first`);
  return readFileSync(file, 'utf8')
    .split(/\n\n-{80}\n\n/)
    .map((text) => {
      const [, name = '', version = '', license = ''] = /^(\S+) (\S+) \((.+)\)$/m.exec(text) ?? [];
      return { name, version, license };
    });
}

function npmComponents(required: readonly Package[], optional: readonly Package[]): readonly Component[] {
  const isNew = (one: Package): boolean =>
    !required.some((two) => two.name === one.name && two.version === one.version);
  const all = [
    ...required.map((one) => ({ ...one, scope: 'required' }) as const),
    ...optional.filter(isNew).map((one) => ({ ...one, scope: 'optional' }) as const),
  ];
  const components = all.map((one) => component({ ...one, type: 'library', purlType: 'npm' }));
  return [...new Map(components.map((one) => [one['bom-ref'], one])).values()];
}

/** The Debian packages of a root file system; licences are in their copyright files. */
function debianComponents(rootfs: string): readonly Component[] {
  const folder = join(rootfs, 'var/lib/dpkg/status.d');
  return readdirSync(folder).map((name) => {
    const fields = readFileSync(join(folder, name), 'utf8');
    const field = (key: string): string => new RegExp(`^${key}: (.*)$`, 'm').exec(fields)?.[1] ?? '';
    return component({
      name,
      version: field('Version'),
      type: 'library',
      purlType: 'deb/debian',
      arch: field('Architecture'),
    });
  });
}

type Component = ReturnType<typeof component>;

function component({ name, version, license, type, purlType, scope, arch }: Described) {
  const qualifiers = arch === undefined ? '' : `?arch=${arch}`;
  const purl = `pkg:${purlType}/${name.replace('@', '%40')}@${version.replaceAll('+', '%2B')}${qualifiers}`;
  const isExpression = license !== undefined && /[ ()]/.test(license);
  return {
    type,
    'bom-ref': purl,
    name,
    version,
    purl,
    ...(license !== undefined && { licenses: [isExpression ? { expression: license } : { license: { id: license } }] }),
    ...(scope !== undefined && { scope }),
  };
}

interface Described {
  readonly name: string;
  readonly version: string;
  readonly license?: string;
  readonly type: 'application' | 'container' | 'library' | 'platform';
  readonly purlType: string;
  readonly scope?: 'required' | 'optional';
  readonly arch?: string;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  showUsage(usage, 2);
  const [named, rootfs] = process.argv.slice(2);
  const artifact = artifacts.find((one) => one === named);
  if (!artifact) {
    process.stderr.write(`the artifact is missing or unknown\n\n${usage}`);
    process.exit(1);
  }
  console.log(JSON.stringify(billOfMaterials(artifact, rootfs), undefined, 2));
}
