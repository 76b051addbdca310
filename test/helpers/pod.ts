import { mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Running, start } from './process.ts';
import { bubblewrap } from './tools.ts';
import { PATIENT } from './weir.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const RESULT = 'result: ';

/**
 * Runs a script in its own network namespace, as the containers of a pod do: every port is free, and `hosts` resolve
 * to 127.0.0.1. Resolves with the value that the script passes to `report`.
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
      ...(isRoot ? ['--cap-add', 'ALL'] : []), // without root, bwrap creates a user namespace, which gives the same capabilities
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

/** Inside the pod: passes the script's result to the test, and ends the pod with all its processes. */
export function report(result: unknown): never {
  console.log(`${RESULT}${JSON.stringify(result)}`);
  process.exit();
}

export interface ContainerOptions {
  /** The root file system. */
  readonly root: string;
  readonly command: readonly string[];
  /** The whole environment, apart from PATH and longer timeouts of the service. */
  readonly env?: Readonly<Record<string, string>>;
  /** User and group. */
  readonly user: number;
  /** Folders and files of this machine by their paths in the container; read-only. */
  readonly mounts?: Readonly<Record<string, string>>;
}

/**
 * Inside a pod: starts a command as PID 1 in a read-only root file system, as an unprivileged user in a user namespace.
 * Like a container engine, adds /proc, /dev and /etc/hosts. `pid` and `kill` are those of the command.
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
      ...['-c', 'exec "$0" "$@" 3>&1', await bubblewrap()], // bwrap closes the file descriptor to which it writes the process id
      ...[...isolation, ...ids, '--info-fd', '3'],
      ...[
        ...bindsOf(root, ''),
        ...Object.entries({ '/etc/hosts': HOSTS_FILE, ...mounts }).flatMap(([to, from]) => ['--ro-bind', from, to]),
      ],
      ...['--proc', '/proc', '--dev', '/dev', '--remount-ro', '/', '--chdir', '/app'],
      ...Object.entries({ PATH: '/usr/bin:/bin', ...PATIENT, ...env }).flatMap(([name, value]) => [
        '--setenv',
        name,
        value,
      ]),
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

/** Binds the entries of a root one by one, so that further files can be added beside them. */
function bindsOf(root: string, path: string): string[] {
  return readdirSync(join(root, path), { withFileTypes: true }).flatMap((entry) => {
    const inside = `${path}/${entry.name}`;
    const outside = join(root, inside);
    if (entry.isSymbolicLink()) return ['--symlink', readlinkSync(outside), inside];
    if (inside === '/etc') return bindsOf(root, inside);
    return ['--ro-bind', outside, inside];
  });
}
