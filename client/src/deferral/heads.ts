import { type Backend, findBackend, type Lines, type QueueKeys } from './lines.ts';

/**
 * How long a job that is not the first of its line stays among the delayed jobs unless it is woken: a day minus one ms,
 * which distinguishes it from a delay set for the job.
 */
export const PARK_MS = 86_399_999;

/** Runs the heads of lines: a job waits among BullMQ's delayed jobs until it is the first of its line. */
export class Heads {
  readonly #lines: Lines;
  readonly #backend: Backend;
  #seen: ReadonlyMap<string, string> = new Map();

  constructor(lines: Lines, queue: QueueKeys) {
    this.#lines = lines;
    this.#backend = findBackend(queue);
  }

  /** Removes a job from its line, and wakes the next one if it was the first. */
  async advance(line: string, id: string): Promise<void> {
    await this.#wakeFirst(line, await this.#lines.leave(line, id));
  }

  /** Makes a job run as soon as a worker is free. @returns  whether it is still to be run */
  async wake(id: string): Promise<boolean> {
    try {
      await this.#backend.promote(id);
      return true;
    } catch {
      return !hasEnded(await this.#backend.getState(id)); // it is not delayed, or Redis fails again
    }
  }

  /**
   * Wakes heads that nothing else will wake: those whose predecessor was on a worker that died at that moment, and
   * those behind jobs that were removed from the queue. It wakes only jobs that have been the head of an open line
   * since the last check.
   *
   * @returns  the number of lines that continue
   */
  async check(): Promise<number> {
    const heads = new Map<string, string>();
    let woken = 0;
    for await (const [line, head] of this.#lines.open()) {
      if (this.#seen.get(line) !== head) heads.set(line, head);
      else if (await this.#recover(line, head)) woken++;
      else heads.set(line, head);
    }
    this.#seen = heads;
    return woken;
  }

  async #recover(line: string, head: string): Promise<boolean> {
    const state = await this.#backend.getState(head);
    if (state === 'delayed') return this.wake(head);
    if (!hasEnded(state)) return false; // it waits for a worker, or a worker has it
    await this.advance(line, head);
    return true;
  }

  async #wakeFirst(line: string, head: string | undefined): Promise<void> {
    let next = head;
    while (next !== undefined && !(await this.wake(next))) next = await this.#lines.leave(line, next);
  }
}

const hasEnded = (state: string): boolean => ['completed', 'failed', 'unknown'].includes(state);
