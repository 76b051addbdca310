import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { load } from 'js-yaml';
import { type ImageRoot, makeImageRoot } from '../helpers/image.ts';
import { runInPod } from '../helpers/pod.ts';
import { composeLoader } from '../helpers/tools.ts';
import { MAIN } from '../helpers/weir.ts';

const FILE = join(__dirname, '../../deploy/compose/compose.yaml');
const POD = join(__dirname, 'pods/compose.ts');
const POD_TIMEOUT_MS = 270_000;
const text = readFileSync(FILE, 'utf8');

let image: ImageRoot;
beforeAll(async () => {
  image = await makeImageRoot();
});
afterAll(() => {
  image.remove();
});

test('compose.yaml is valid for Docker Compose', async () => {
  const { stdout } = await promisify(execFile)(await composeLoader(), [FILE]);
  expect(stdout.trim().split('\n').sort()).toEqual(
    ['envoy', 'grafana', 'load', 'prometheus', 'redis', 'upstream', 'weir'].sort(),
  );
});

test('every file that a service mounts exists', () => {
  const { services } = load(text) as {
    readonly services: Readonly<Record<string, { readonly volumes?: readonly string[] }>>;
  };
  const paths = Object.values(services).flatMap(({ volumes = [] }) =>
    volumes.map((volume) => volume.split(':')[0] ?? ''),
  );
  expect(paths.length).toBeGreaterThan(5);
  expect(paths.filter((path) => !existsSync(resolve(dirname(FILE), path)))).toEqual([]);
});

test('the rules of the compose file are valid', async () => {
  await promisify(execFile)(process.execPath, [MAIN, 'check', '--strict', join(dirname(FILE), 'rules')]);
});

test('the services of the compose file, run without a container engine, limit requests and are scraped', async () => {
  const hosts = ['weir', 'redis', 'envoy', 'upstream', 'prometheus'];
  const found = (await runInPod(POD, { hosts, env: { IMAGE_ROOT: image.root }, timeoutMs: POD_TIMEOUT_MS })) as {
    readonly statuses: readonly number[]; // reported by the script
  };
  expect(found).toMatchObject({ rates: 1, ruleGroups: 1, loadExit: { code: 0 }, exit: { code: 0 } });
  expect(found.statuses.slice(0, 2)).toEqual([200, 200]);
  expect(found.statuses.filter((status) => ![200, 429].includes(status))).toEqual([]);
});
