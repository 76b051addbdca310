import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Ajv } from 'ajv';
import { releaseNotes } from '../../deploy/release/notes.ts';
import { actionlint, cyclonedxSchemas } from '../helpers/tools.ts';

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

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'release-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

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
      ...['dist/main.js', 'dist/token-bucket.lua', 'dist/console/index.html', 'config/rules.yaml'],
      ...['dist/engine.js', 'dist/types/engine/index.d.ts'],
    ]),
  );
  const built =
    /\.(js|js\.map|lua|proto)$|^dist\/types\/.+\.d\.ts$|^dist\/LICENSES\.txt$|^dist\/console\/[\w-]+\.(css|html|js|svg)(\.gz)?$/;
  expect(paths.filter((path) => path.startsWith('dist/') && !built.test(path))).toEqual([]);
});

test('the project is published as weir-rls, with the command weir and without dependencies', () => {
  expect(manifest).toMatchObject({ name: 'weir-rls', bin: { weir: 'dist/main.js' } });
  expect(manifest).not.toHaveProperty('private');
  expect(manifest.dependencies).toBeUndefined();
});

test('the SBOM is CycloneDX, and lists bundled and optional packages, but no development dependencies', async () => {
  const { stdout } = await run('npx', ['tsx', 'deploy/release/sbom.ts']);
  const sbom = JSON.parse(stdout) as { specVersion: string; components: Component[] }; // checked below
  const schemas = await cyclonedxSchemas();
  const schemaOf = (name: string): object => JSON.parse(readFileSync(join(schemas, name), 'utf8'));
  const ajv = new Ajv({ strict: false, validateFormats: false });
  for (const name of ['spdx', 'jsf-0.82'])
    ajv.addSchema(schemaOf(`${name}.SNAPSHOT.schema.json`), `http://cyclonedx.org/schema/${name}.SNAPSHOT.schema.json`);
  const validate = ajv.compile(schemaOf(`bom-${sbom.specVersion}.SNAPSHOT.schema.json`));
  validate(sbom);
  expect(validate.errors ?? []).toEqual([]);
  const named = (wanted: Component['scope']) =>
    sbom.components.filter(({ scope }) => scope === wanted).map(({ name }) => name);
  const licences = read('dist/LICENSES.txt');
  expect(named('required').filter((name) => !licences.includes(`${name} `))).toEqual([]);
  expect(named('required')).toEqual(
    expect.arrayContaining(['@grpc/grpc-js', 'commander', 'ioredis', 'js-yaml', 'pino']),
  );
  expect(named('optional')).toEqual(expect.arrayContaining(Object.keys(manifest.peerDependencies)));
  const ofDevelopment = ['typescript', 'jest', 'esbuild', 'tsx', 'ajv'];
  expect(Object.keys(manifest.devDependencies)).toEqual(expect.arrayContaining(ofDevelopment));
  expect(sbom.components.filter(({ name }) => ofDevelopment.includes(name))).toEqual([]);
});

interface Component {
  readonly name: string;
  readonly scope: 'required' | 'optional';
}

describe('the release workflow', () => {
  const lint = async (text: string): Promise<string> => {
    const file = join(folder, 'release.yaml');
    writeFileSync(file, text);
    return run(await actionlint(), ['-no-color', file]).then(
      ({ stdout }) => stdout,
      ({ stdout }: { stdout: string }) => stdout,
    );
  };
  const workflow = read('.github/workflows/release.yaml');

  test('has no problem that actionlint finds', async () => {
    expect(await lint(workflow)).toBe('');
  });

  test('would be rejected with a job that needs a missing one', async () => {
    expect(await lint(workflow.replace('needs: test', 'needs: tests'))).toContain('tests');
  });

  test('runs existing commands of the project', () => {
    const scripts = Object.keys((JSON.parse(read('package.json')) as { readonly scripts: object }).scripts);
    for (const [, name] of workflow.matchAll(/npm run (?:--silent )?([\w:-]+)/g)) expect(scripts).toContain(name);
    for (const [, file = ''] of workflow.matchAll(/npx tsx (\S+)/g)) expect(read(file)).toContain('Usage: npx tsx');
  });
});

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

test('the chart has the same version as the project', () => {
  const chart = read('deploy/helm/weir/Chart.yaml');
  expect(chart).toContain(`\nversion: ${manifest.version}\nappVersion: ${manifest.version}\n`);
});
