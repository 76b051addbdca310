import type { Readable } from 'node:stream';
import type { Clock } from '../base/clock.ts';

/** The parts of the process that commands use. */
export interface Surroundings {
  readonly clock: Clock;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly isTerminal: boolean;
  /** Prints a text and a line break. */
  readonly print: (text: string) => void;
  /** Prints an error, and makes the process exit with 1. */
  readonly fail: (message: string) => void;
  /** Makes the process exit with this code. */
  readonly exitWith: (code: number) => void;
  readonly input: Readable;
  /** Writes to standard output; resolves when more can be written. */
  readonly write: (text: string) => Promise<void>;
  /** Writes to standard error; undefined if it is not a terminal. */
  readonly showProgress: ((text: string) => void) | undefined;
  /** Runs the service with these variables; `rules` is the path of `--rules`. */
  readonly serve: (env: Surroundings['env'], rules: string | undefined) => Promise<void>;
}
