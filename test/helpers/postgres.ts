import { execFile } from 'node:child_process';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort, start } from './process.ts';
import { postgresPrograms } from './tools.ts';

/** A PostgreSQL server for a test. */
export interface Postgres {
  /** Creates an empty database. @returns its URL */
  createDatabase(): Promise<string>;
  stop(): Promise<void>;
}

/** Starts a server on a free port of 127.0.0.1; ready when it accepts connections. It does not run as root. */
export async function startPostgres(): Promise<Postgres> {
  const programs = await postgresPrograms();
  const isRoot = process.getuid?.() === 0;
  const folder = await mkdtemp(join(isRoot ? '/var/tmp' : tmpdir(), 'postgres-')); // that of tests is closed to others
  if (isRoot) {
    await chmod(folder, 0o711);
    await promisify(execFile)('chown', ['nobody', folder]);
  }
  const asUser = (program: string, args: readonly string[]): readonly [string, readonly string[]] =>
    isRoot ? ['setpriv', ['--reuid=nobody', '--clear-groups', program, ...args]] : [program, args];
  const run = (program: string, args: readonly string[]) =>
    promisify(execFile)(...(asUser(join(programs, program), args) as [string, string[]]), { cwd: folder });
  const data = join(folder, 'data');
  await run('initdb', ['--pgdata', data, '--username', 'weir', '--auth', 'trust', '--encoding', 'UTF8', '--no-sync']);
  const port = await freePort();
  const settings = ['-c', 'listen_addresses=127.0.0.1', '-c', `unix_socket_directories=${folder}`, '-c', 'fsync=off'];
  const [command, args] = asUser(join(programs, 'postgres'), ['-D', data, '-p', String(port), ...settings]);
  const server = await start(command, args, { cwd: folder, name: 'postgres' });
  await server.waitFor('database system is ready to accept connections');
  let created = 0;
  return {
    async createDatabase() {
      const name = `usage_${created++}`;
      const sql = ['--host', '127.0.0.1', '--port', String(port), '--username', 'weir', '--dbname', 'postgres'];
      await run('psql', [...sql, '--command', `CREATE DATABASE ${name}`]);
      return `postgres://weir@127.0.0.1:${port}/${name}`;
    },
    async stop() {
      await server.stop('SIGINT'); // disconnects clients
      await rm(folder, { recursive: true, force: true });
    },
  };
}
