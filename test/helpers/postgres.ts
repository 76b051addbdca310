import { execFile } from 'node:child_process';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { accepts, freePort, start } from './process.ts';
import { pgbouncer, postgresPrograms } from './tools.ts';

/** A PostgreSQL server for a test. */
export interface Postgres {
  /** Creates an empty database. @returns its URL */
  createDatabase(): Promise<string>;
  readonly port: number;
  stop(): Promise<void>;
}

/** Starts a server on a free port of 127.0.0.1; ready when it accepts connections. It does not run as root. */
export async function startPostgres(): Promise<Postgres> {
  const programs = await postgresPrograms();
  const folder = await makeFolder('postgres-');
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
    port,
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

/**
 * Starts a PgBouncer in transaction mode in front of the server.
 *
 * @returns  `urlOf` gives the URL of a database through it
 */
export async function startPgBouncer(postgres: Postgres) {
  const [folder, port] = [await makeFolder('pgbouncer-'), await freePort()];
  const [config, users] = [join(folder, 'pgbouncer.ini'), join(folder, 'users.txt')];
  await writeFile(users, '"weir" ""\n');
  await writeFile(
    config,
    `[databases]
* = host=127.0.0.1 port=${postgres.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = trust
auth_file = ${users}
pool_mode = transaction
default_pool_size = 2
`,
  );
  const server = await start(...asUser(await pgbouncer(), [config]), { cwd: folder, name: 'pgbouncer' });
  await server.waitFor(() => accepts(port));
  return {
    urlOf: (database: string) => database.replace(`:${postgres.port}/`, `:${port}/`),
    async stop() {
      await server.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

const isRoot = process.getuid?.() === 0;

/** A folder of the user that runs the servers, which is not root. */
async function makeFolder(prefix: string): Promise<string> {
  const folder = await mkdtemp(join(isRoot ? '/var/tmp' : tmpdir(), prefix)); // that of tests is closed to others
  if (isRoot) {
    await chmod(folder, 0o711);
    await promisify(execFile)('chown', ['nobody', folder]);
  }
  return folder;
}

const asUser = (program: string, args: readonly string[]): [string, readonly string[]] =>
  isRoot ? ['setpriv', ['--reuid=nobody', '--clear-groups', program, ...args]] : [program, args];
