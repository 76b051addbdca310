import type { Readable } from 'node:stream';
import type { Surroundings } from './admin.ts';

/** What commands that read traffic take from the process, besides. */
export interface ReplaySurroundings extends Surroundings {
  readonly input: Readable;
  /** Writes to standard output; resolves when there is room for more. */
  readonly write: (text: string) => Promise<void>;
  /** Writes to the terminal that standard error is; undefined: it is none. */
  readonly showProgress: ((text: string) => void) | undefined;
}

export interface ReplayFlags {
  readonly rules: string;
  readonly against?: string;
  readonly overlay: readonly string[];
  /** Milliseconds; absent: lines are in order. */
  readonly reorder?: number;
  readonly json: boolean;
  readonly answers: boolean;
  readonly verify: boolean;
  readonly maxRefused?: number;
  readonly maxNewlyRefused?: number;
  readonly maxNewlyHurt?: number;
}
