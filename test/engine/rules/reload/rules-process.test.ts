import { execFileSync } from 'node:child_process';
import { mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { childrenOf } from '../../../helpers/child-processes.ts';
import { start } from '../../../helpers/process.ts';
import { MAIN, startWeir, type Weir } from '../../../helpers/weir.ts';

/** The pieces that a process sends in one message. */
const PIECES_A_MESSAGE = 16;

let folder: string;
let weir: Weir | undefined;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'rules-process-'));
});
afterEach(async () => {
  await weir?.stop();
  rmSync(folder, { recursive: true });
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

test('a reload is compared in the process that checks rules, and the log names the changed rules', async () => {
  write('changed', 300, 1);
  write('same', 300, 1);
  weir = await startWeir({ LOG_LEVEL: 'info' }, { args: ['--rules', folder] });
  write('changed', 301, 2);
  await weir.waitFor('reloaded 601 rules');
  expect(weir.output()).toMatch(
    /added changed\.user_u300; changed changed\.user_u0, .* and 295 more; counters kept: changed\.user_u0, .* and 295 more$/m,
  );
  write('changed', 300, 2); // the process knows the current rules by now
  await weir.waitFor('reloaded 600 rules');
  expect(weir.output()).toMatch(/removed changed\.user_u300$/m);
});

test('rules with more pieces than fit into a message arrive completely', async () => {
  const PIECE_NODES = 32;
  const count = PIECE_NODES * PIECES_A_MESSAGE * 2 + 1;
  write('large', count, 1);
  write('small', 1, 1);
  weir = await startWeir({ LOG_LEVEL: 'info' }, { args: ['--rules', folder] });
  write('large', count, 2);
  await weir.waitFor(`reloaded ${count + 1} rules`);
  const LISTED = 5;
  expect(weir.output()).toContain(` and ${count - LISTED} more; counters kept: large.user_u0`);
});

const pipe = (): string => {
  const path = join(folder, 'pipe.yaml');
  execFileSync('mkfifo', [path]);
  return path;
};

test('a named pipe among the rules is refused by name, and rules are reloaded when it is removed', async () => {
  write('demo', 2, 1);
  weir = await startWeir({ LOG_LEVEL: 'info' }, { args: ['--rules', folder] });
  const path = pipe();
  await weir.waitFor(`${path}:1: cannot be read: it is a named pipe, expected a regular file`);
  rmSync(path);
  symlinkSync('/dev/zero', path);
  await weir.waitFor(`${path}:1: cannot be read: it is a device, expected a regular file`);
  rmSync(path);
  write('demo', 3, 1);
  await weir.waitFor('reloaded 3 rules');
});

test('a named pipe in an overlay is refused, and the overlay is read when it is removed', async () => {
  write('demo', 2, 1);
  const overlay = mkdtempSync(join(tmpdir(), 'overlay-'));
  const text = (limit: number) =>
    JSON.stringify({
      domain: 'demo',
      descriptors: [{ key: 'user', value: 'u0', rate_limit: { requests_per_unit: limit } }],
    });
  writeFileSync(join(overlay, 'a.yaml'), text(5));
  weir = await startWeir({ LOG_LEVEL: 'info', RULES_OVERLAY: overlay }, { args: ['--rules', folder] });
  execFileSync('mkfifo', [join(overlay, 'b.yaml')]);
  await weir.waitFor('b.yaml:1: cannot be read: it is a named pipe, expected a regular file');
  rmSync(join(overlay, 'b.yaml'));
  writeFileSync(join(overlay, 'a.yaml'), text(6));
  await weir.waitFor('changed demo.user_u0');
  rmSync(overlay, { recursive: true });
});

test('a service does not start with a named pipe for rules, and reports the reason', async () => {
  const path = pipe();
  const { PATH } = process.env;
  const started = await start(process.execPath, [MAIN, 'serve', '--rules', path], { env: { PATH } });
  expect(await started.exited).toEqual({ code: 1, signal: null });
  expect(started.output()).toContain('it is a named pipe, expected a regular file');
});

/** The process that checks the rules of a service: its only child. */
const rulesProcessOf = ({ pid }: Weir): number | undefined => childrenOf(pid)[0];

test('rules are reloaded even if the process that checks them is killed', async () => {
  write('demo', 2, 1);
  weir = await startWeir({ LOG_LEVEL: 'info' }, { args: ['--rules', folder] });
  for (const count of [3, 4, 5]) {
    write('demo', count, 1);
    await weir.waitFor(`reloaded ${count} rules`);
    const pid = rulesProcessOf(weir);
    expect(pid).toBeGreaterThan(0);
    if (pid) process.kill(pid, count === 4 ? 'SIGKILL' : 'SIGTERM'); // SIGTERM, which systemd sends to all processes, ends none
  }
  expect(weir.output()).not.toContain('cannot be read');
});

test('a process that is killed while it checks rules is replaced', async () => {
  const MANY = 4_000;
  write('demo', MANY, 1);
  weir = await startWeir({ LOG_LEVEL: 'info' }, { args: ['--rules', folder] });
  write('demo', MANY, 2);
  const running = weir;
  await running.waitFor(() => rulesProcessOf(running) !== undefined);
  const pid = rulesProcessOf(running);
  if (pid) process.kill(pid, 'SIGKILL'); // the job has hardly begun
  await weir.waitFor(`reloaded ${MANY} rules`);
});
