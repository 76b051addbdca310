import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Reply } from './child.ts';
import type { Load, Tally } from './drive.ts';
import type { HttpLoad, HttpTally } from './drive-http.ts';

const CHILD = fileURLToPath(new URL('./child.ts', import.meta.url));

/** Generates load in a separate process, so that its CPU time is counted separately. */
export interface Generator {
  readonly pid: number;
  /** Runs one load at a time. @throws  a call failed or was answered wrongly, or no answer came for ten seconds */
  drive(load: Load): Promise<Tally>;
  /** The same for requests through a proxy. */
  driveHttp(load: HttpLoad): Promise<HttpTally>;
  stop(): void;
}

export function startGenerator(): Generator {
  const child = fork(CHILD, { execArgv: ['--import', 'tsx'] });
  child.on('error', () => {}); // reported to the code that waits for a message
  child.once('exit', (code) => child.emit('error', new Error(`the load generator ended with exit code ${code}`)));
  const run = async <T>(load: Load | HttpLoad): Promise<T> => {
    child.send(load);
    const [reply] = (await once(child, 'message')) as [Reply<T>]; // child.ts sends the tally that belongs to the load
    if ('failure' in reply) throw new Error(reply.failure);
    return reply.tally;
  };
  return {
    pid: child.pid ?? 0, // a child that could not be started fails in `drive`
    drive: (load) => run(load),
    driveHttp: (load) => run(load),
    stop: () => child.disconnect(),
  };
}
