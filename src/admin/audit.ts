import { write } from 'node:fs';
import { appendFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import type { Records } from '../backends/records.ts';
import type { Clock } from '../clock.ts';
import { ApiProblem } from './problem.ts';
import { rfc3339 } from './times.ts';

/** A change, as the audit log keeps it. */
export interface AuditLine {
  /** RFC 3339. */
  readonly at: string;
  /** The name of the token. */
  readonly who: string;
  readonly change: string;
  readonly reason: string;
  readonly what: object;
  readonly before: unknown;
  readonly after: unknown;
  /** Why the change was not made after all. */
  readonly failed?: string;
}

export type Change = Omit<AuditLine, 'at' | 'failed'>;

/** Lines that are kept for the API. */
const MAX_KEPT = 1_000;

const LIST = 'audit';

/** Records every change before it is made. */
export class Audit {
  readonly #options: { readonly sink: string; readonly clock: Clock; readonly records: Records };

  /** @param options.sink  `stderr`, or a file that lines are appended to */
  constructor(options: { readonly sink: string; readonly clock: Clock; readonly records: Records }) {
    this.#options = options;
  }

  /**
   * Makes a change once its line is written.
   *
   * @throws Problem  503: the line could not be written, and nothing was changed
   */
  async change<T>(change: Change, make: () => Promise<T>): Promise<T> {
    await this.#write(change);
    try {
      return await make();
    } catch (error) {
      await this.#write({ ...change, failed: error instanceof Error ? error.message : String(error) });
      throw error;
    }
  }

  /** The newest first. */
  async latest(count: number): Promise<readonly AuditLine[]> {
    const lines = await this.#options.records.latest(LIST, Math.min(count, MAX_KEPT));
    return lines.map((line) => JSON.parse(line) as AuditLine); // as written here
  }

  async #write(change: Change & { readonly failed?: string }): Promise<void> {
    const { sink, clock, records } = this.#options;
    const line = JSON.stringify({ at: rfc3339(clock()), ...change } satisfies AuditLine);
    try {
      if (sink === 'stderr') await writeToStderr(`${line}\n`);
      else await appendFile(sink, `${line}\n`, { flush: true });
    } catch (error) {
      throw new ApiProblem(
        503,
        `nothing was changed: the audit log cannot be written: ${error instanceof Error ? error.message : error}`,
      );
    }
    await records.append(LIST, line, MAX_KEPT).catch(() => {}); // the sink has it
  }
}

const writeToStderr = (text: string): Promise<unknown> => promisify(write)(STDERR, text);
const STDERR = 2;
