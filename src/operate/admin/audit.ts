import { write } from 'node:fs';
import { appendFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import type { Clock } from '../../base/clock.ts';
import { parseObject } from '../../base/json.ts';
import { printableJson } from '../../base/printable.ts';
import { rfc3339 } from '../../base/times.ts';
import type { Records } from '../../engine/backends/records.ts';
import type { AuditLine } from '../answers/service.ts';
import type { WorkState } from '../observe/work-state.ts';
import { ApiProblem } from './problem.ts';

type Change = Omit<AuditLine, 'at' | 'failed'>;

/** The number of lines kept for the API. */
const MAX_KEPT = 1_000;

const LIST = 'audit';

interface AuditOptions {
  /** `stderr`, or the file to append to. */
  readonly sink: string;
  readonly clock: Clock;
  readonly records: Records;
  readonly state: WorkState;
}

/** Records every change before it is made. */
export class Audit {
  readonly #options: AuditOptions;

  constructor(options: AuditOptions) {
    this.#options = options;
  }

  /**
   * Makes a change after its line is written.
   *
   * @throws ApiProblem  503: the line could not be written, and nothing was changed
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
    return lines.flatMap((line) => (parseObject(line) as AuditLine | undefined) ?? []); // as written here, or foreign
  }

  async #write(change: Change & { readonly failed?: string }): Promise<void> {
    const { sink, clock, records, state } = this.#options;
    const line = printableJson({ at: rfc3339(clock()), ...change } satisfies AuditLine, 0);
    try {
      if (sink === 'stderr') await writeToStderr(`${line}\n`);
      else await appendFile(sink, `${state.failing ? '\n' : ''}${line}\n`, { flush: true }); // a part of the last one may be there
    } catch (error) {
      state.failed(error);
      throw new ApiProblem(
        503,
        `nothing was changed: the audit log cannot be written: ${error instanceof Error ? error.message : error}`,
      );
    }
    state.works();
    await records.append(LIST, line, MAX_KEPT).catch(() => {}); // the line is in the sink already
  }
}

const writeToStderr = (text: string): Promise<unknown> => promisify(write)(STDERR, text);
const STDERR = 2;
