import { readdirSync, readFileSync } from 'node:fs';
import type { Running } from './process.ts';

/** A server that fails on command. */
export interface Stoppable {
  /** Freezes it: connections stay open and are accepted, nothing is answered. */
  pause(): void;
  resume(): void;
  stop(): Promise<void>;
  /** Ends it as a power cut would: it writes nothing down and hands nothing over. */
  kill(): Promise<void>;
  /** Ready again, with what it has kept on disk if anything, on the same port; also after stop() and kill(). */
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
      while (!isStopped(server.pid)); // its threads stop one by one, and may answer until then
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

/** By the kernel's state of each thread; an ended process counts as stopped. */
function isStopped(pid: number): boolean {
  try {
    const threads = readdirSync(`/proc/${pid}/task`);
    return threads.every((thread) =>
      /^\d+ \(.*\) [TZX]/.test(readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8')),
    );
  } catch {
    return true;
  }
}
