import { startChild } from '../../processes/child.ts';
import type { Load, Tally } from './drive.ts';
import type { HttpLoad, HttpTally } from './drive-http.ts';

/** Longer than any load; the generator itself notices missing answers. */
const LOAD_LIMIT_MS = 3_600_000;

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
  // the answer belongs to the kind of load
  const child = startChild<Load | HttpLoad, Tally & HttpTally>(new URL('./child.ts', import.meta.url));
  return {
    pid: child.pid,
    drive: (load) => child.ask(load, LOAD_LIMIT_MS),
    driveHttp: (load) => child.ask(load, LOAD_LIMIT_MS),
    stop: () => void child.kill(),
  };
}
