import { DelayedError, type Job, UnrecoverableError } from 'bullmq';
import type { DeferralCounts } from './counts.ts';
import { type Heads, PARK_MS } from './heads.ts';
import type { Lines } from './lines.ts';
import type { DeferredWorkerOptions } from './options.ts';
import { MAX_PAUSE_MS, pauseAfter } from './pause.ts';

/** The dependencies of turns. */
export interface TurnParts<D> {
  readonly options: DeferredWorkerOptions<D>;
  readonly lines: Lines;
  readonly heads: Heads;
  readonly counts: DeferralCounts;
  /** Adds the jitter to a wait. */
  readonly jitter: (waitMs: number) => number;
  /** The clock by which BullMQ delays jobs, in ms since 1970. */
  readonly now: () => number;
}

/** How long to wait for the service's answer: jobs can wait longer than requests. */
const DEFAULT_TIMEOUT_MS = 1_000;

/** Lets the head of a line start if Weir admits it, and makes all other jobs wait. */
export class Turns<D> {
  readonly #parts: TurnParts<D>;

  constructor(parts: TurnParts<D>) {
    this.#parts = parts;
  }

  /**
   * Resolves if the job may start.
   *
   * @throws DelayedError  it is not the job's turn, and the job has been moved back to the delayed jobs
   * @throws UnrecoverableError  the job will not get another turn
   */
  async take(line: string, job: Job<D>, token: string | undefined): Promise<void> {
    const { lines, options, counts, jitter, now } = this.#parts;
    const { client, domain, key, cost, maxAgeMs = Infinity, maxRefusals = Infinity } = options;
    const { onError = 'deny', timeoutMs = DEFAULT_TIMEOUT_MS } = options;
    const id = requireId(job);
    const hasStarted = job.attemptsMade > 0 || job.stalledCounter > 0;
    const waitMs = await lines.enter(line, id, hasStarted);
    if (now() - job.timestamp > maxAgeMs) throw new UnrecoverableError(`the job is older than ${maxAgeMs} ms`);
    if (waitMs !== undefined) checkAge(now() + waitMs - job.timestamp, waitMs, maxAgeMs);
    if (waitMs !== 0) return this.#park(line, job, waitMs, token);
    const hits = cost ? cost(job.data) : 1;
    const descriptors = key(job.data);
    if (descriptors === undefined) throw new TypeError('the key of a job must depend on its data alone');
    const decision = await client.limit(domain, descriptors, { hits, timeoutMs, onError });
    if (decision.ok) return;
    const pause = pauseAfter(decision);
    if (pause.kind === 'never') {
      const rule = decision.rule ?? domain;
      throw new UnrecoverableError(`the job has ${hits} hits, and the limit of ${rule} never admits so many`);
    }
    counts.add(pause.kind);
    const pauseMs = jitter(Math.min(pause.ms, MAX_PAUSE_MS));
    const refusals = await lines.close(line, id, pauseMs, pause.kind === 'refused' ? pause.ms : undefined);
    if (refusals > maxRefusals) throw new UnrecoverableError(`the job was refused more than ${maxRefusals} times`);
    const turnMs = Math.max(pauseMs, pause.ms);
    checkAge(now() + turnMs - job.timestamp, turnMs, maxAgeMs);
    return this.#park(line, job, pauseMs, token);
  }

  /** @param waitMs  undefined: until it is woken */
  async #park(line: string, job: Job<D>, waitMs: number | undefined, token: string | undefined): Promise<never> {
    const { lines, heads, now } = this.#parts;
    await job.moveToDelayed(now() + (waitMs ?? PARK_MS), token);
    const id = requireId(job);
    // Its predecessor may have left meanwhile, and could not wake a job that a worker had.
    if (waitMs === undefined && (await lines.head(line)) === id) await heads.wake(id);
    throw new DelayedError();
  }
}

function checkAge(ageMs: number, waitMs: number, maxAgeMs: number): void {
  if (ageMs > maxAgeMs)
    throw new UnrecoverableError(`the next turn of the job is in ${waitMs} ms, when it is older than ${maxAgeMs} ms`);
}

export function requireId({ id }: Pick<Job, 'id'>): string {
  if (id === undefined) throw new Error('expected a job that was added to its queue');
  return id;
}
