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

test('the packed project holds the built service, its messages and rules, and nothing of its development', async () => {
  const { stdout } = await run('npm', ['pack', '--dry-run', '--json', '--ignore-scripts']);
  const found: unknown = JSON.parse(stdout);
  const [{ files }] = (Array.isArray(found) ? found : Object.values(found as object)) as [
    { files: { path: string }[] },
  ]; // as `npm pack --json` documents it
  const paths = files.map(({ path }) => path);
  expect(new Set(paths.map((path) => path.split('/')[0]))).toEqual(
    new Set(['LICENSE', 'README.md', 'config', 'dist', 'package.json', 'proto']),
  );
  expect(paths).toEqual(
    expect.arrayContaining(['dist/main.js', 'dist/token-bucket.lua', 'dist/console/index.html', 'config/rules.yaml']),
  );
  const built = /\.(js|js\.map|lua|proto)$|^dist\/LICENSES\.txt$|^dist\/console\/[\w-]+\.(css|html|js|svg)(\.gz)?$/;
  expect(paths.filter((path) => path.startsWith('dist/') && !built.test(path))).toEqual([]);
}, 120_000);

test('the project is published as weir-rls, with the command weir and no dependency that npm would install', () => {
  expect(manifest).toMatchObject({ name: 'weir-rls', bin: { weir: 'dist/main.js' } });
  expect(manifest).not.toHaveProperty('private');
  expect(manifest.dependencies).toBeUndefined();
});

test('the SBOM is CycloneDX, and names the packages of the bundle and the optional ones, and none of development', async () => {
  const { stdout } = await run('npm', ['run', '--silent', 'sbom']);
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
}, 120_000);

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

  test('has nothing that actionlint finds', async () => {
    expect(await lint(workflow)).toBe('');
  });

  test('would be found wrong with a job that needs one that there is not', async () => {
    expect(await lint(workflow.replace('needs: test', 'needs: tests'))).toContain('tests');
  });

  test('runs commands that the project has', () => {
    const scripts = Object.keys((JSON.parse(read('package.json')) as { readonly scripts: object }).scripts);
    for (const [, name] of workflow.matchAll(/npm run (?:--silent )?([\w:-]+)/g)) expect(scripts).toContain(name);
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
  ])('of %s are its section of the changelog', (version, notes) => {
    expect(releaseNotes(changelog, version)).toBe(notes);
  });
});

test('the chart has the version of the project', () => {
  const chart = read('deploy/helm/weir/Chart.yaml');
  expect(chart).toContain(`\nversion: ${manifest.version}\nappVersion: ${manifest.version}\n`);
});
