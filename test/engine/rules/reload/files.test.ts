import { mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import {
  plainPath,
  type RuleSource,
  type RuntimeLayout,
  runtimeDirectory,
} from '../../../../src/engine/rules/reload/files.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'rules-'));
});

/** Creates empty files at these paths in the test's folder, with their directories. */
function files(...paths: readonly string[]): void {
  for (const path of paths) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), '');
  }
}

const link = (target: string, path: string): void => symlinkSync(target, join(folder, path));

/** The listed files by their names in messages, and their paths below the test's folder. */
const listed = async (source: RuleSource) =>
  (await source.list()).map(({ path, name }) => ({ name, path: path.replace(`${folder}/`, '') }));

/** The listed files by their paths below `ratelimit/config`. */
const belowApp = async (source: RuleSource) =>
  (await listed(source)).map(({ path }) => path.replace('ratelimit/config/', ''));

/** Files like those of a mounted Kubernetes ConfigMap: links through `..data`, which one rename swaps. */
function configMap(directory: string): void {
  files(`${directory}/..2026_11_21/rules.yaml`, `${directory}/..2026_11_21/more.yaml`);
  link('..2026_11_21', `${directory}/..data`);
  for (const name of ['rules.yaml', 'more.yaml']) link(`..data/${name}`, `${directory}/${name}`);
}

describe('a plain path', () => {
  const names = async (path: string) => (await listed(plainPath(join(folder, path)))).map((file) => file.path);

  test('that is a file is that file, with any extension', async () => {
    files('rules.txt');
    const path = join(folder, 'rules.txt');
    const source = plainPath(path);
    expect(source.description).toBe(path);
    expect(await source.list()).toMatchObject([{ path, name: path }]);
  });

  test('that is a directory has all its .yaml and .yml files, at any depth, sorted', async () => {
    files('rules/b.yaml', 'rules/a.yml', 'rules/team/z.yaml', 'rules/team/deep/c.yaml', 'rules/team-a.yaml');
    files('rules/README.md', 'rules/a.yaml.bak', 'rules/yaml', 'rules/c.yamlx', 'rules/d.YAML');
    expect(await names('rules')).toEqual([
      'rules/a.yml',
      'rules/b.yaml',
      'rules/team/deep/c.yaml',
      'rules/team/z.yaml',
      'rules/team-a.yaml',
    ]);
  });

  test('that is a directory without rule files has no files', async () => {
    files('rules/README.md', 'rules/.hidden.yaml');
    await expect(names('rules')).rejects.toThrow('the directory holds no .yaml or .yml file');
  });

  test('leaves out names that begin with a dot, except in the path itself', async () => {
    files('.rules/a.yaml', '.rules/.b.yaml', '.rules/.git/c.yaml', '.hidden.yaml');
    expect([await names('.rules'), await names('.hidden.yaml')]).toEqual([['.rules/a.yaml'], ['.hidden.yaml']]);
  });

  test('follows symbolic links', async () => {
    files('elsewhere/a.yaml');
    link('elsewhere', 'rules');
    link('a.yaml', 'elsewhere/b.yaml');
    expect(await names('rules')).toEqual(['rules/a.yaml', 'rules/b.yaml']);
  });

  test('that is a ConfigMap sees each file once', async () => {
    configMap('rules');
    expect(await names('rules')).toEqual(['rules/more.yaml', 'rules/rules.yaml']);
  });
});

describe('a runtime directory', () => {
  const source = (layout: Partial<RuntimeLayout> = {}): RuleSource =>
    runtimeDirectory({
      root: folder,
      subdirectory: 'ratelimit',
      appDirectory: 'config',
      ignoreDotFiles: false,
      watchRoot: true,
      ...layout,
    });

  beforeEach(() => files('ratelimit/config/b.yaml', 'ratelimit/config/a/b.yaml', 'ratelimit/other/c.yaml', 'd.yaml'));

  test.each([true, false])('with watchRoot %s names its files by paths that can be opened', async (watchRoot) => {
    const paths = ['ratelimit/config/a/b.yaml', 'ratelimit/config/b.yaml'];
    expect(await listed(source({ watchRoot }))).toEqual(paths.map((path) => ({ name: join(folder, path), path })));
  });

  test('with watchRoot includes files beside the app directory that are named after it', async () => {
    files('ratelimit/config.yaml');
    const has = async (watchRoot: boolean) =>
      (await listed(source({ watchRoot }))).some(({ path }) => path === 'ratelimit/config.yaml');
    expect([await has(true), await has(false)]).toEqual([true, false]);
  });

  test('without a subdirectory is directly below its root', async () => {
    const found = await listed(source({ root: join(folder, 'ratelimit'), subdirectory: '' }));
    expect(found.map(({ path }) => path)).toEqual(['ratelimit/config/a/b.yaml', 'ratelimit/config/b.yaml']);
  });

  test('includes only the app directory, not one with the same prefix', async () => {
    files('ratelimit/config2/e.yaml', 'ratelimit/my/config/f.yaml');
    expect(await belowApp(source())).toEqual(['a/b.yaml', 'b.yaml']);
    expect(source().description).toBe(join(folder, 'ratelimit/config'));
  });

  test('includes every file, with any extension', async () => {
    files('ratelimit/config/README.md', 'ratelimit/config/backup~');
    expect(await belowApp(source({ watchRoot: false }))).toEqual(['README.md', 'a/b.yaml', 'b.yaml', 'backup~']);
  });

  test.each([
    [true, ['a/b.yaml', 'b.yaml']],
    [false, ['..hidden.yaml', '.git/config', 'a/b.yaml', 'b.yaml']],
  ])('with ignoreDotFiles %s: %j', async (ignoreDotFiles, names) => {
    files('ratelimit/config/..hidden.yaml', 'ratelimit/config/.git/config');
    expect(await belowApp(source({ watchRoot: false, ignoreDotFiles }))).toEqual(names);
  });

  test.each([true, false])(
    'that is a ConfigMap sees each file once when dot files are ignored, watchRoot %s',
    async (watchRoot) => {
      configMap('ratelimit/map');
      const found = await listed(source({ appDirectory: 'map', ignoreDotFiles: true, watchRoot }));
      expect(found.map(({ path }) => path)).toEqual(['ratelimit/map/more.yaml', 'ratelimit/map/rules.yaml']);
    },
  );

  test.each([true, false])(
    'that is a ConfigMap also sees each file once when dot files are not ignored, and reports this, watchRoot %s',
    async (watchRoot) => {
      configMap('ratelimit/map');
      files('ratelimit/map/..other.yaml');
      const found = source({ appDirectory: 'map', watchRoot });
      expect((await listed(found)).map(({ path }) => path)).toEqual([
        'ratelimit/map/more.yaml',
        'ratelimit/map/rules.yaml',
      ]);
      expect(found.notes?.()).toEqual([
        expect.stringMatching(/ratelimit\/map is a Kubernetes volume .*RUNTIME_IGNOREDOTFILES=true/),
      ]);
    },
  );

  test('may be a link, such as `current`', async () => {
    link('ratelimit', 'current');
    const found = await listed(source({ subdirectory: 'current' }));
    expect(found[0]?.path).toBe('current/config/a/b.yaml');
  });

  test('that does not exist throws', async () => {
    await expect(source({ root: join(folder, 'nowhere') }).list()).rejects.toThrow(/ENOENT.*nowhere/);
    await expect(source({ appDirectory: 'nowhere', watchRoot: false }).list()).rejects.toThrow(/ENOENT.*nowhere/);
  });
});
