import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer, Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

const OUTPUT_LIMIT_CHARS = 1_000_000;
const POLL_MS = 25;
/** Longer than any program takes to start, even on a busy machine. */
const START_TIMEOUT_MS = 100_000;
/** Longer than any program takes to end by itself. */
const STOP_GRACE_MS = 30_000;

/** How a process ended: one of the two is null, as in Node's 'exit' event. */
export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A child process of a test. */
export interface Running {
  readonly pid: number;
  readonly exited: Promise<Exit>;
  /** The last million characters of both output streams, in the order of arrival. */
  output(): string;
  /**
   * Resolves when the output contains the text or the predicate holds; rejects with the output after the timeout, or if
   * the process has ended.
   */
  waitFor(expected: string | ((output: string) => boolean | Promise<boolean>), timeoutMs?: number): Promise<void>;
  /** Writes to its standard input, which is closed from the start unless `readsInput`. */
  write(text: string): void;
  kill(signal: NodeJS.Signals): void;
  /** Ends the process and waits for its exit; sends SIGKILL after half a minute. May be called twice. */
  stop(signal?: NodeJS.Signals): Promise<Exit>;
}

export interface StartOptions {
  /** The child's whole environment; absent: that of this process. */
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  /** The name in error messages; absent: the command. */
  readonly name?: string;
  readonly readsInput?: boolean;
}

/** Starts a program. It dies with this process. */
export async function start(command: string, args: readonly string[], options: StartOptions = {}): Promise<Running> {
  const { env = process.env, cwd = process.cwd(), name = command, readsInput = false } = options;
  const child = spawn(command, args, { env, cwd, stdio: 'pipe' });
  let output = '';
  let exit: Exit | undefined;
  child.unref(); // a child that a failed test left behind must not keep jest waiting for it
  child.stdin.on('error', () => {}); // it has ended
  if (!readsInput) child.stdin.end();
  for (const stream of [child.stdin, child.stdout, child.stderr]) {
    if (stream instanceof Socket) stream.unref();
  }
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-OUTPUT_LIMIT_CHARS);
    });
  }
  const exited = new Promise<Exit>((resolve) => {
    child.once('close', (code, signal) => {
      exit = { code, signal };
      resolve(exit);
    });
  });
  await once(child, 'spawn');
  const pid = child.pid ?? 0; // a spawned process has one
  killWithParent(pid, exited);

  const waitFor: Running['waitFor'] = async (expected, timeoutMs = START_TIMEOUT_MS) => {
    const holds = typeof expected === 'string' ? () => output.includes(expected) : () => expected(output);
    const endMs = Date.now() + timeoutMs;
    while (!(await holds())) {
      if (exit) throw new Error(`${name} ended (${exit.signal ?? `exit code ${exit.code}`}); its output:\n${output}`);
      if (Date.now() > endMs) throw new Error(`${name} is not ready after ${timeoutMs} ms; its output:\n${output}`);
      await sleep(POLL_MS);
    }
  };
  const stop: Running['stop'] = async (signal = 'SIGTERM') => {
    child.kill(signal);
    const killer = setTimeout(() => child.kill('SIGKILL'), STOP_GRACE_MS);
    return exited.finally(() => clearTimeout(killer));
  };
  const write: Running['write'] = (text) => void child.stdin.write(text);
  return { pid, exited, output: () => output, waitFor, write, kill: (signal) => child.kill(signal), stop };
}

/**
 * Kills the child when this process ends in any way: jest ends a lingering worker with SIGKILL, which runs no exit
 * hook. The shell waits for the end of its stdin, which closes with this process. It is detached, so that Ctrl-C does
 * not end it first.
 */
function killWithParent(pid: number, exited: Promise<Exit>): void {
  const guard = spawn('sh', ['-c', 'read never; kill -KILL "$0"', String(pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  guard.unref();
  exited.then(() => guard.kill('SIGKILL'));
}

/** At least the number of jest's workers: each has its own ports, so that none takes one that another found free. */
const PORT_STEP = 8;
/** The ports below those that Linux assigns to outgoing connections. */
const [FIRST_PORT, END_OF_PORTS] = [20_000, 32_768];
let nextPort =
  FIRST_PORT + randomInt(10_000 / PORT_STEP) * PORT_STEP + (Number(process.env.JEST_WORKER_ID ?? 0) % PORT_STEP);

/**
 * A free port, a different one at each of some hundred calls. It is not one that Linux assigns to outgoing connections,
 * so that a server that restarts later finds its port still free.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = nextPort;
    nextPort += PORT_STEP;
    if (nextPort >= END_OF_PORTS) nextPort = FIRST_PORT + (nextPort % PORT_STEP);
    const server = createServer();
    const free = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true));
    });
    if (!free) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
}

/** Whether a server accepts connections on this port of 127.0.0.1. */
export const accepts = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('error', () => resolve(false));
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
  });
