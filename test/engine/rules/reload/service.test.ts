import { execFileSync } from 'node:child_process';
import { mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { start } from '../../../helpers/process.ts';
import { MAIN, startWeir, type Weir } from '../../../helpers/weir.ts';

let folder: string;
let weir: Weir | undefined;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'reload-'));
});
afterEach(async () => {
  await weir?.stop();
});

/** Replaces the rules of a domain by `count` rules with this limit. */
function write(domain: string, count: number, limit: number): void {
  const nodes = Array.from({ length: count }, (_, at) => ({
    ...{ key: 'user', value: `u${at}`, rate_limit: { unit: 'day', requests_per_unit: limit } },
  }));
  const path = join(folder, `${domain}.yaml`);
  writeFileSync(`${path}.new`, JSON.stringify({ domain, descriptors: nodes }));
  renameSync(`${path}.new`, path);
}

const pipe = (path: string): string => {
  execFileSync('mkfifo', [path]);
  return path;
};

test('the log names what a reload changes, and pipes and devices are refused until they are removed', async () => {
  write('changed', 300, 1);
  write('same', 300, 1);
  const overlay = mkdtempSync(join(tmpdir(), 'overlay-'));
  const overlaid = (limit: number) =>
    JSON.stringify({
      domain: 'same',
      descriptors: [{ key: 'user', value: 'u0', rate_limit: { requests_per_unit: limit } }],
    });
  writeFileSync(join(overlay, 'a.yaml'), overlaid(5));
  weir = await startWeir({ LOG_LEVEL: 'info', RULES_OVERLAY: overlay }, { args: ['--rules', folder] });

  const inOverlay = pipe(join(overlay, 'b.yaml'));
  write('changed', 301, 2);
  await weir.waitFor('reloaded 601 rules');
  await weir.waitFor('b.yaml:1: cannot be read: it is a named pipe, expected a regular file');
  expect(weir.output()).toMatch(
    /added changed\.user_u300; changed changed\.user_u0, .* and 295 more; counters kept: changed\.user_u0, .* and 295 more$/m,
  );

  rmSync(inOverlay);
  writeFileSync(join(overlay, 'a.yaml'), overlaid(6));
  await weir.waitFor('changed same.user_u0');

  const paths = [pipe(join(folder, 'pipe.yaml')), join(folder, 'zero.yaml')];
  symlinkSync('/dev/zero', join(folder, 'zero.yaml'));
  await weir.waitFor(`${paths[0]}:1: cannot be read: it is a named pipe, expected a regular file`);
  await weir.waitFor(`${paths[1]}:1: cannot be read: it is a device, expected a regular file`);
  for (const path of paths) rmSync(path);
  write('changed', 300, 2);
  await weir.waitFor('reloaded 600 rules');
  expect(weir.output()).toMatch(/removed changed\.user_u300$/m);
});

test('a service does not start with a named pipe for rules, and reports the reason', async () => {
  const path = pipe(join(folder, 'pipe.yaml'));
  const { PATH } = process.env;
  const started = await start(process.execPath, [MAIN, 'serve', '--rules', path], { env: { PATH } });
  expect(await started.exited).toEqual({ code: 1, signal: null });
  expect(started.output()).toContain('it is a named pipe, expected a regular file');
});
