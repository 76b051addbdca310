import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Ajv, type ValidateFunction } from 'ajv';
import { load } from 'js-yaml';
import { NODE_VERSION } from '../../deploy/image/rootfs.ts';
import { commonVersion } from '../../deploy/release/artifacts.ts';
import { releaseNotes } from '../../deploy/release/notes.ts';
import { artifacts, billOfMaterials } from '../../deploy/release/sbom.ts';
import { actionlint, cyclonedxSchemas, imageBase } from '../helpers/tools.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const run = (command: string, args: readonly string[], cwd = PROJECT) =>
  promisify(execFile)(command, args, { cwd, maxBuffer: 1 << 26 });
const read = (path: string): string => readFileSync(join(PROJECT, path), 'utf8');
const manifest = JSON.parse(read('package.json')) as {
  readonly version: string; // npm's own file
  readonly dependencies?: object;
  readonly peerDependencies: object;
  readonly devDependencies: Readonly<Record<string, string>>;
};

test('the packed project contains the built service, its messages and rules, and no development files', async () => {
  const { stdout } = await run('npm', ['pack', '--dry-run', '--json', '--ignore-scripts']);
  const found: unknown = JSON.parse(stdout);
  const [{ files }] = (Array.isArray(found) ? found : Object.values(found as object)) as [
    { files: { path: string }[] },
  ]; // the format of `npm pack --json`
  const paths = files.map(({ path }) => path);
  expect(new Set(paths.map((path) => path.split('/')[0]))).toEqual(
    new Set(['LICENSE', 'README.md', 'config', 'dist', 'package.json', 'proto']),
  );
  expect(paths).toEqual(
    expect.arrayContaining([
      ...['dist/main.js', 'dist/console/index.html', 'config/rules.yaml'],
      ...['dist/engine.js', 'dist/types/engine/index.d.ts'],
    ]),
  );
  const built =
    /\.(js|js\.map|proto)$|^dist\/types\/.+\.d\.ts$|^dist\/LICENSES\.txt$|^dist\/console\/[\w-]+\.(css|html|js|svg)(\.gz)?$/;
  expect(paths.filter((path) => path.startsWith('dist/') && !built.test(path))).toEqual([]);
});

test('the project is published as weir-rls, with the command weir and without dependencies', () => {
  expect(manifest).toMatchObject({ name: 'weir-rls', bin: { weir: 'dist/main.js' } });
  expect(manifest).not.toHaveProperty('private');
  expect(manifest.dependencies).toBeUndefined();
});

describe('bills of materials', () => {
  let validate: ValidateFunction;
  beforeAll(async () => {
    const schemas = await cyclonedxSchemas();
    const schemaOf = (name: string): object => JSON.parse(readFileSync(join(schemas, name), 'utf8'));
    const ajv = new Ajv({ strict: false, validateFormats: false });
    for (const name of ['spdx', 'jsf-0.82'])
      ajv.addSchema(
        schemaOf(`${name}.SNAPSHOT.schema.json`),
        `http://cyclonedx.org/schema/${name}.SNAPSHOT.schema.json`,
      );
    validate = ajv.compile(schemaOf('bom-1.5.SNAPSHOT.schema.json'));
  });
  const componentsOf = async (artifact: (typeof artifacts)[number]): Promise<readonly Component[]> => {
    const sbom = billOfMaterials(artifact, artifact === 'weir-image' ? await imageBase() : undefined);
    validate(sbom);
    expect(validate.errors ?? []).toEqual([]);
    const { metadata, components } = sbom as Bom; // checked above
    expect(metadata.component).toMatchObject({ name: artifact, version: manifest.version });
    return components;
  };
  const namesIn = (components: readonly Component[], scope?: Component['scope']) =>
    components.filter((one) => scope === undefined || one.scope === scope).map(({ name }) => name);

  test('the SBOM of weir-rls lists bundled and optional packages, those of the console included, but no development dependencies', async () => {
    const components = await componentsOf('weir-rls');
    expect(namesIn(components, 'required')).toEqual(
      expect.arrayContaining(['@grpc/grpc-js', 'commander', 'ioredis', 'js-yaml', 'pino', 'preact']),
    );
    expect(namesIn(components, 'optional')).toEqual(expect.arrayContaining(Object.keys(manifest.peerDependencies)));
    const ofDevelopment = ['typescript', 'jest', 'esbuild', 'tsx', 'ajv'];
    expect(Object.keys(manifest.devDependencies)).toEqual(expect.arrayContaining(ofDevelopment));
    expect(namesIn(components).filter((name) => ofDevelopment.includes(name))).toEqual([]);
  });

  test('the SBOM of weir-client lists what its own bundle contains', async () => {
    const names = namesIn(await componentsOf('weir-client'));
    expect(names).toContain('ipaddr.js');
    expect(names).not.toContain('ioredis');
  });

  test('the SBOM of the image lists Node, the Debian packages and those for tracing', async () => {
    const names = namesIn(await componentsOf('weir-image'));
    expect(names).toEqual(expect.arrayContaining(['node', 'libc6', 'libstdc++6', 'ca-certificates', 'weir-rls']));
    expect(names).toEqual(expect.arrayContaining(Object.keys(manifest.peerDependencies)));
  });

  test('the SBOM of the chart lists the image', async () => {
    expect(await componentsOf('weir-chart')).toMatchObject([{ purl: `pkg:oci/weir@${manifest.version}` }]);
  });
});

interface Bom {
  readonly metadata: { readonly component: Component };
  readonly components: readonly Component[];
}

interface Component {
  readonly name: string;
  readonly version: string;
  readonly purl: string;
  readonly scope: 'required' | 'optional';
}

const WORKFLOWS = readdirSync(join(PROJECT, '.github/workflows')).map((name) => `.github/workflows/${name}`);

const lint = async (path: string): Promise<string> =>
  run(await actionlint(), ['-no-color', path]).then(
    ({ stdout }) => stdout,
    ({ stdout, message }: { stdout: string; message: string }) => stdout || message,
  );

test('actionlint finds no problem in the workflow that checks changes of rules', async () => {
  expect(await lint('deploy/github/rule-changes.yaml')).toBe('');
});

describe.each(WORKFLOWS)('the workflow %s', (path) => {
  const workflow = read(path);

  test('has no problem that actionlint finds', async () => {
    expect(await lint(path)).toBe('');
  });

  test('pins actions by the hash of a commit, with its version, the same in all workflows', () => {
    const all = WORKFLOWS.map(read).join('');
    for (const [, action = '', pin = ''] of workflow.matchAll(/uses: ([^@\s]+)(.*)/g)) {
      expect(pin).toMatch(/^@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
      const [owner, name] = action.split('/');
      const pins = Array.from(all.matchAll(new RegExp(`uses: ${owner}/${name}[^@]*(.*)`, 'g')), ([, one]) => one);
      expect(new Set(pins)).toEqual(new Set([pin]));
    }
  });

  test('runs existing commands of the project', () => {
    const scripts = Object.keys((JSON.parse(read('package.json')) as { readonly scripts: object }).scripts);
    for (const [, name] of workflow.matchAll(/npm run (?:--silent )?([\w:-]+)/g)) expect(scripts).toContain(name);
    for (const [, file = ''] of workflow.matchAll(/npx tsx (\S+)/g)) expect(read(file)).toContain('Usage: npx tsx');
  });
});

test('pull requests run what every machine runs, on the oldest supported Node and on that of the image', () => {
  const { on, jobs } = load(read('.github/workflows/ci.yaml')) as Workflow; // linted above
  expect(on).toHaveProperty('pull_request');
  expect(jobs.test?.steps.map((step) => step.run)).toContain('.ci/run');
  const { engines } = JSON.parse(read('package.json')) as { readonly engines: { readonly node: string } };
  expect(jobs.test?.strategy?.matrix.node).toEqual([engines.node.replace('>=', ''), NODE_VERSION.split('.')[0]]);
});

interface Workflow {
  readonly on: object;
  readonly jobs: Readonly<
    Record<
      string,
      {
        readonly strategy?: { readonly matrix: { readonly node: readonly string[] } };
        readonly steps: readonly { readonly run?: string }[];
      }
    >
  >;
}

test('the release workflow publishes each artifact with its SBOM', () => {
  const workflow = read('.github/workflows/release.yaml');
  for (const artifact of artifacts) expect(workflow).toMatch(new RegExp(`sbom-path: release/${artifact}-`));
  for (const packed of ['weir-rls', 'weir-client', 'weir']) expect(workflow).toContain(`release/${packed}-\${{`);
});

test.each(['package.json', 'client/package.json', 'conformance/package.json'])(
  '%s is published publicly, with provenance of this repository',
  (path) => {
    expect(JSON.parse(read(path))).toMatchObject({
      publishConfig: { access: 'public', provenance: true },
      repository: { url: 'git+https://github.com/weir-rls/weir.git' },
    });
  },
);

test.each(['.github/dependabot.yml', '.github/ISSUE_TEMPLATE/bug.yaml', '.github/ISSUE_TEMPLATE/wish.yaml'])(
  '%s is valid YAML, and names folders that exist',
  (path) => {
    const found = load(read(path)) as { readonly updates?: readonly { readonly directory?: string }[] };
    for (const { directory = '/' } of found.updates ?? []) expect(existsSync(join(PROJECT, directory))).toBe(true);
  },
);

describe('release notes', () => {
  const changelog =
    '# Changelog\n\n## Unreleased\n\n## 1.1.0 - 2026-01-02\n\n- New.\n- Better.\n\n## 1.0.0\n\n- First.\n';

  test.each([
    ['1.1.0', '- New.\n- Better.'],
    ['1.0.0', '- First.'],
    ['Unreleased', undefined],
    ['1', undefined],
  ])('of %s are its section in the changelog', (version, notes) => {
    expect(releaseNotes(changelog, version)).toBe(notes);
  });
});

describe('the version of a release', () => {
  test('is that of the project, the client, the chart and a section of the changelog', () => {
    expect(commonVersion()).toBe(manifest.version);
  });

  test.each([
    ['client/package.json', /"version": "[^"]+"/, '"version": "9.9.9"'],
    ['conformance/package.json', /"version": "[^"]+"/, '"version": "9.9.9"'],
    ['deploy/helm/weir/Chart.yaml', /^version: .*$/m, 'version: 9.9.9'],
    ['deploy/helm/weir/Chart.yaml', /^appVersion: .*$/m, 'appVersion: 9.9.9'],
    ['CHANGELOG.md', `## ${manifest.version}`, '## 9.9.9'],
  ])('is refused if it is missing in %s', (path, right, wrong) => {
    const changed = (one: string): string => (one === path ? read(one).replace(right, wrong) : read(one));
    expect(() => commonVersion(changed)).toThrow(`package.json has ${manifest.version}, but `);
  });
});
