import type { Clock } from '../../base/clock.ts';
import { groupBy } from '../../base/group.ts';
import { rfc3339 } from '../../base/times.ts';
import type { WorkName } from '../answers/service.ts';
import type { Logger } from './log.ts';

interface Failing {
  readonly sinceMs: number;
  readonly reason: string;
}

/** Background work of one process or several, as operators see it. */
export interface WorkReport {
  readonly name: WorkName;
  /** What it does, as a sentence goes on: `collecting usage`. */
  readonly does: string;
  /** Absent: it works. */
  readonly failing?: Failing | undefined;
}

interface WorkOptions extends Pick<WorkReport, 'does'> {
  readonly clock: Clock;
  readonly log: Pick<Logger, 'warn' | 'error'>;
  /** How long it may fail after its creation without being reported, while other processes start. Default: 0. */
  readonly startMs?: number | undefined;
}

/** The state of work, with one log line whenever it begins to fail or works again. */
export class WorkState {
  readonly #options: WorkOptions;
  readonly #reportedFromMs: number;
  #failing: Failing | undefined;

  constructor(options: WorkOptions) {
    this.#options = options;
    this.#reportedFromMs = options.clock() + (options.startMs ?? 0);
  }

  /** Undefined: it works. */
  get failing(): Failing | undefined {
    return this.#failing;
  }

  works(): void {
    if (this.#failing === undefined) return;
    this.#failing = undefined;
    this.#options.log.warn(`${this.#options.does} works again`);
  }

  failed(error: unknown): void {
    const { does, clock, log } = this.#options;
    const nowMs = clock();
    if (nowMs < this.#reportedFromMs) return;
    const reason = error instanceof Error ? error.message : String(error);
    if (!this.#failing) log.error(`${does} is failing: ${reason}`);
    this.#failing = { sinceMs: this.#failing?.sinceMs ?? nowMs, reason };
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

/** `since … because …`. */
export const failingText = ({ sinceMs, reason }: Failing): string => `since ${rfc3339(sinceMs)} because ${reason}`;

/** The background work of a process. */
export class Background {
  readonly #options: Pick<WorkOptions, 'clock' | 'log'>;
  #states: readonly { readonly work: Omit<WorkReport, 'failing'>; readonly state: WorkState }[] = [];

  constructor(options: Pick<WorkOptions, 'clock' | 'log'>) {
    this.#options = options;
  }

  /** The state of further work. */
  add(name: WorkName, does: string, startMs?: number): WorkState {
    const state = new WorkState({ ...this.#options, does, startMs });
    this.#states = [...this.#states, { work: { name, does }, state }];
    return state;
  }

  /** Ends the work of a state. */
  remove(ended: WorkState): void {
    this.#states = this.#states.filter(({ state }) => state !== ended);
  }

  report(): readonly WorkReport[] {
    return this.#states.map(({ work, state }) => ({ ...work, failing: state.failing }));
  }
}

/** The work of several processes: it fails if it fails in one of them, since the first failure. */
export const mergeWork = (all: readonly WorkReport[]): readonly WorkReport[] =>
  Array.from(groupBy(all, ({ does }) => does).values(), (same) =>
    same.reduce((one, other) =>
      (other.failing?.sinceMs ?? Infinity) < (one.failing?.sinceMs ?? Infinity) ? other : one,
    ),
  );
