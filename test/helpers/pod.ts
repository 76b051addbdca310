import { mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Running, start } from './process.ts';
import { bubblewrap } from './tools.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const RESULT = 'result: ';

/**
 * Runs a script in a network of its own, as the containers of a pod have one: every port is free, and these names lead to 127.0.0.1.
 * Resolves with what the script passes to `report`.
 */
export async function runInPod(
  script: string,
  {
    hosts,
    env = {},
    timeoutMs,
  }: { readonly hosts: readonly string[]; readonly env?: Readonly<Record<string, string>>; readonly timeoutMs: number },
): Promise<unknown> {
  const folder = mkdtempSync(join(tmpdir(), 'pod-'));
  const file = join(folder, 'hosts');
  writeFileSync(file, `127.0.0.1 localhost ${hosts.join(' ')}\n`);
  const isRoot = process.getuid?.() === 0;
  const pod = await start(
    await bubblewrap(),
    [
      ...['--dev-bind', '/', '/', '--ro-bind', file, '/etc/hosts'],
      ...['--unshare-net', '--die-with-parent', '--chdir', PROJECT],
      ...(isRoot ? ['--cap-add', 'ALL'] : []), // else it has made a user namespace, in which it may do as much
      ...[process.execPath, '--import', 'tsx', script],
    ],
    { name: script, env: { ...process.env, HOSTS_FILE: file, ...env } },
  );
  try {
    await pod.waitFor((output) => output.includes(RESULT) && output.endsWith('\n'), timeoutMs);
    const [, line = ''] = pod.output().split(RESULT);
    return JSON.parse(line);
  } finally {
    await pod.stop();
    rmSync(folder, { recursive: true });
  }
}

/** Inside the pod: hands the result of the script to the test, and ends the pod with everything in it. */
export function report(result: unknown): never {
  console.log(`${RESULT}${JSON.stringify(result)}`);
  process.exit();
}

export interface ContainerOptions {
  /** The root file system. */
  readonly root: string;
  readonly command: readonly string[];
  /** The whole environment, besides PATH. */
  readonly env?: Readonly<Record<string, string>>;
  /** User and group. */
  readonly user: number;
  /** Folders and files of this machine by where they are in the container; read only. */
  readonly mounts?: Readonly<Record<string, string>>;
}

/**
 * Inside a pod: starts a command in a root file system that cannot be written, as PID 1, as a user without any privilege in a user namespace.
 * Like a container engine, it adds /proc, /dev and /etc/hosts. `pid` and `kill` are those of the command.
 */
export async function startContainer(options: ContainerOptions): Promise<Running> {
  const { root, command, env = {}, user, mounts = {} } = options;
  const { HOSTS_FILE = '/etc/hosts' } = process.env;
  const isolation = [
    '--unshare-user',
    '--unshare-pid',
    '--unshare-ipc',
    '--as-pid-1',
    '--die-with-parent',
    '--clearenv',
  ];
  const ids = ['--uid', String(user), '--gid', String(user)];
  const running = await start(
    'sh',
    [
      ...['-c', 'exec "$0" "$@" 3>&1', await bubblewrap()], // it closes the descriptor that it writes the process id to
      ...[...isolation, ...ids, '--info-fd', '3'],
      ...[
        ...bindsOf(root, ''),
        ...Object.entries({ '/etc/hosts': HOSTS_FILE, ...mounts }).flatMap(([to, from]) => ['--ro-bind', from, to]),
      ],
      ...['--proc', '/proc', '--dev', '/dev', '--remount-ro', '/', '--chdir', '/app'],
      ...Object.entries({ PATH: '/usr/bin:/bin', ...env }).flatMap(([name, value]) => ['--setenv', name, value]),
      ...command,
    ],
    { name: command.join(' ') },
  );
  const pidOf = (): number => Number(/"child-pid": (\d+)/.exec(running.output())?.[1]);
  await running.waitFor(() => pidOf() > 0);
  const kill = (signal: NodeJS.Signals): void => void process.kill(pidOf(), signal);
  const stop = (signal: NodeJS.Signals = 'SIGTERM') => {
    kill(signal);
    return running.exited;
  };
  return { ...running, pid: pidOf(), kill, stop };
}

/** Binds what a root holds, one by one, so that further files can be put beside them. */
function bindsOf(root: string, path: string): string[] {
  return readdirSync(join(root, path), { withFileTypes: true }).flatMap((entry) => {
    const inside = `${path}/${entry.name}`;
    const outside = join(root, inside);
    if (entry.isSymbolicLink()) return ['--symlink', readlinkSync(outside), inside];
    if (inside === '/etc') return bindsOf(root, inside);
    return ['--ro-bind', outside, inside];
  });
}
