import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort, start } from './process.ts';
import { type Stoppable, startStoppable } from './stoppable.ts';
import { redisServer } from './tools.ts';

/** A redis-server for a test, initially empty. */
export interface Redis extends Stoppable {
  readonly port: number;
  /** 127.0.0.1:<port> */
  readonly url: string;
}

export interface RedisOptions {
  /** Further arguments of the server. */
  readonly args?: readonly string[];
  /** The program to start instead. */
  readonly program?: string;
  /** Where it persists all acknowledged writes, which the next start loads; absent: nothing is persisted. */
  readonly folder?: string;
}

/** Starts a redis-server on a free port of 127.0.0.1; ready when it answers PING, or requires a password first. */
export async function startRedis({ args = [], program, folder }: RedisOptions = {}): Promise<Redis> {
  const port = await freePort();
  const launch = async () => {
    const dir = folder ?? (await mkdtemp(join(tmpdir(), 'redis-')));
    const log = folder === undefined ? ['--appendonly', 'no'] : ['--appendonly', 'yes', '--appendfsync', 'always'];
    const kept = ['--save', '', ...log, '--dir', dir, '--repl-diskless-sync-delay', '0'];
    const common = ['--port', String(port), '--bind', '127.0.0.1', ...kept];
    const server = await start(program ?? (await redisServer()), [...common, ...args]);
    if (folder === undefined) server.exited.then(() => rm(dir, { recursive: true }));
    await server.waitFor(() => answersPing(port));
    return server;
  };
  return { port, url: `127.0.0.1:${port}`, ...(await startStoppable(launch)) };
}

async function answersPing(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    socket.write('PING\r\n');
    const [reply] = await Promise.race([once(socket, 'data'), once(socket, 'end')]);
    return /^(\+PONG|-NOAUTH)/.test(String(reply));
  } catch {
    return false; // not listening yet
  } finally {
    socket.destroy();
  }
}
