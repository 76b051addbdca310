import { mkdtempSync, readdirSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { start } from '../helpers/process.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tour-'));
});

/** The tour without pauses, with its temporary files in a folder of the test. */
const startTour = (args = ['--auto'], readsInput = false, PATH = process.env.PATH) =>
  start(process.execPath, ['--import', 'tsx', 'tour/run.ts', ...args], {
    env: { ...process.env, PATH, TMPDIR: folder },
    name: 'the tour',
    readsInput,
  });

test('the tour shows a refusal, its reason, a reset, a candidate and an outage, and leaves nothing behind', async () => {
  const tour = await startTour();
  expect(await tour.exited).toEqual({ code: 0, signal: null });
  const shown = tour.output();
  const steps = Array.from(shown.matchAll(/^── (\d) of (\d): /gm), ([, at, of]) => `${at}/${of}`);
  expect(steps).toEqual(steps.map((_, at) => `${at + 1}/${steps.length}`));
  expect(shown).toMatch(/export WEIR_TOKEN=\w+ /);
  expect(shown).toContain('HTTP 429\n    x-ratelimit-limit: 5');
  expect(shown).toMatch(/OVER_LIMIT .*= \d+ > 5/);
  expect(shown).toContain('0 used, 5 left  before:');
  expect(shown).toContain('support case 4711');
  expect(shown).toMatch(/candidate --count 2[^$]*demo\.path_\/items/);
  expect(shown).toMatch(/\/items\/1 .*\n {4}(HTTP 429 *){0,7}(HTTP 200 *)+\n/); // some were refused just before
  expect(shown).toMatch(/\/checkout .*\n {4}(HTTP 429 *){8}\n/);
  expect(shown).toMatch(/user: carol.*\n {4}(HTTP 200 *){5}(HTTP 429 *){3}\n/);
  expect(shown).toMatch(/store: down/);
  expect(shown).toContain('Everything is counted in Redis again.');
  expect(readdirSync(folder).filter((name) => !name.startsWith('tsx-'))).toEqual([]);
});

test('the tour waits for Enter, and Ctrl-C stops all its processes', async () => {
  const tour = await startTour([], true);
  await tour.waitFor('Press Enter to go on.');
  tour.write('\n');
  await tour.waitFor('2 of ');
  tour.kill('SIGINT');
  expect(await tour.exited).toEqual({ code: 130, signal: null });
  expect(readdirSync(folder).filter((name) => !name.startsWith('tsx-'))).toEqual([]);
});

test('the tour also runs without Redis on PATH, and without Envoy', async () => {
  symlinkSync('/bin/sh', join(folder, 'sh')); // the only program on its PATH
  const tour = await startTour(['--auto', '--without', 'envoy'], false, folder);
  expect(await tour.exited).toEqual({ code: 0, signal: null });
  const shown = tour.output();
  expect(shown).toContain('Redis is not on PATH. Counters are in memory instead.');
  expect(shown).toMatch(/curl -i http:\S+\/json -d '{"domain":"demo".*"alice".*\n( {4}HTTP 200\n){5} {4}HTTP 429\n/);
  expect(shown).not.toMatch(/headers|x-user/);
  expect(shown).toContain('This step needs Redis, which is not running here');
  expect(readdirSync(folder).filter((name) => !name.startsWith('tsx-'))).toEqual(['sh']);
});
