import { execFile, execFileSync } from 'node:child_process';
import { promisify } from 'node:util';
import { type Running, type StartOptions, start } from './process.ts';

/** Why network namespaces cannot be created here, for titles; undefined if they can. */
export const namespaceProblem = ((): string | undefined => {
  try {
    execFileSync('unshare', ['--user', '--map-root-user', '--net', 'ip', 'link', 'add', 'cable', 'type', 'veth'], {
      stdio: 'ignore',
    });
    return undefined;
  } catch {
    return 'network namespaces cannot be created here';
  }
})();

/** A network namespace. */
export interface Namespace {
  /** Starts a program in it. */
  start(command: string, args: readonly string[], options?: StartOptions): Promise<Running>;
  /** Runs a program to its end. @returns its output */
  run(command: string, args: readonly string[]): Promise<string>;
}

/** Two machines with a cable between them, each with its own kernel tables. */
export interface Link {
  readonly server: Namespace;
  readonly client: Namespace;
  stop(): Promise<void>;
}

/** @param addresses  of each end, with prefix lengths */
export async function openLink(addresses: {
  readonly server: readonly string[];
  readonly client: readonly string[];
}): Promise<Link> {
  const holder = await start('unshare', ['--user', '--map-root-user', '--net', ...HOLD]);
  await holder.waitFor('open');
  const server = namespace(holder.pid, ['--user', '--preserve-credentials', '--net']);
  const other = await server.start('unshare', ['--net', ...HOLD]);
  await other.waitFor('open');
  const client = namespace(other.pid, ['--user', '--preserve-credentials', '--net']);
  await server.run('ip', ['link', 'add', 'veth0', 'type', 'veth', 'peer', 'name', 'veth1', 'netns', String(other.pid)]);
  for (const [end, device, own] of [
    [server, 'veth0', addresses.server],
    [client, 'veth1', addresses.client],
  ] as const) {
    for (const one of own)
      await end.run('ip', ['address', 'add', one, 'dev', device, ...(one.includes(':') ? ['nodad'] : [])]);
    for (const name of ['lo', device]) await end.run('ip', ['link', 'set', name, 'up']);
  }
  return {
    server,
    client,
    async stop() {
      await other.stop('SIGKILL');
      await holder.stop('SIGKILL');
    },
  };
}

/** A program that keeps its namespaces, and says that they are there. */
const HOLD = ['sh', '-c', 'echo open; exec sleep 1000000'];

function namespace(pid: number, kinds: readonly string[]): Namespace {
  const entered = (command: string, args: readonly string[]) => ['--target', String(pid), ...kinds, command, ...args];
  return {
    start: (command, args, options) => start('nsenter', entered(command, args), options),
    run: async (command, args) => (await promisify(execFile)('nsenter', entered(command, args))).stdout,
  };
}
