import type { Clock } from '../../base/clock.ts';
import { rfc3339 } from '../../base/times.ts';
import type { Logger } from './log.ts';

interface WorkOptions {
  /** What the work does, as a sentence goes on: `collecting usage`. */
  readonly name: string;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'warn' | 'error'>;
  /** How long it may fail after its creation without being reported, while other processes start. Default: 0. */
  readonly startMs?: number;
}

/** The state of work beside the answers, with one log line whenever it begins to fail or works again. */
export class WorkState {
  readonly #options: WorkOptions;
  readonly #reportedFromMs: number;
  #failing: string | undefined;

  constructor(options: WorkOptions) {
    this.#options = options;
    this.#reportedFromMs = options.clock() + (options.startMs ?? 0);
  }

  /** `since … because …`; undefined: it works. */
  get failing(): string | undefined {
    return this.#failing;
  }

  works(): void {
    if (this.#failing === undefined) return;
    this.#failing = undefined;
    this.#options.log.warn(`${this.#options.name} works again`);
  }

  failed(error: unknown): void {
    const { name, clock, log } = this.#options;
    if (this.#failing !== undefined || clock() < this.#reportedFromMs) return;
    const reason = error instanceof Error ? error.message : String(error);
    this.#failing = `since ${rfc3339(clock())} because ${reason}`;
    log.error(`${name} is failing, and is tried again: ${reason}`);
  }

  /** Runs the work, whose failure is a state. */
  async run(work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (error) {
      return this.failed(error);
    }
    this.works();
  }
}
