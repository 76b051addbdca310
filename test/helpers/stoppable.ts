import { readdirSync, readFileSync } from 'node:fs';
import type { Running } from './process.ts';

/** A server of a test's own that fails when it is told to. */
export interface Stoppable {
  /** Freezes it: connections stay open and are accepted, nothing is answered. */
  pause(): void;
  resume(): void;
  stop(): Promise<void>;
  /** Ends it by SIGKILL. */
  crash(): Promise<void>;
  /** On the same port, and empty again where nothing was kept; also after stop() or crash(). */
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
    async crash() {
      await server.stop('SIGKILL');
    },
    async restart() {
      await stop();
      server = await launch();
    },
  };
}

/** By the state that the kernel tells of each thread; what is gone is as good as stopped. */
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
