import { readdirSync, readFileSync } from 'node:fs';
import type { Running } from './process.ts';

/** A server that fails on command. */
export interface Stoppable {
  /** Freezes the process: connections stay open and are accepted, but nothing is answered. */
  pause(): void;
  resume(): void;
  stop(): Promise<void>;
  /** Kills the process, like a power cut: it saves nothing and hands nothing over. */
  kill(): Promise<void>;
  /**
   * Restarts it on the same port, with its data on disk if any, and waits until it is ready; also after stop() and
   * kill().
   */
  restart(): Promise<void>;
}

/** @param launch  starts the server and waits until it is ready */
export async function startStoppable(launch: () => Promise<Running>): Promise<Stoppable> {
  let server = await launch();
  const stop = async () => {
    server.kill('SIGCONT'); // a frozen process handles no SIGTERM
    await server.stop();
  };
  return {
    pause() {
      server.kill('SIGSTOP');
      while (!isStopped(server.pid)); // threads stop one by one, and the others may still answer
    },
    resume: () => server.kill('SIGCONT'),
    stop,
    async kill() {
      await server.stop('SIGKILL');
    },
    async restart() {
      await stop();
      server = await launch();
    },
  };
}

/** Checks the kernel's state of each thread; an ended process counts as stopped. */
function isStopped(pid: number): boolean {
  const threads = orNothing(() => readdirSync(`/proc/${pid}/task`)) ?? [];
  return threads.every((thread) => {
    const state = orNothing(() => readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8'));
    return state === undefined || /^\d+ \(.*\) [TZX]/.test(state);
  });
}

/** What `read` returns; undefined: the process or thread has ended. */
function orNothing<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
