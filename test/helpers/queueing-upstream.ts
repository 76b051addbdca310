import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { Upstream } from './upstream.ts';

/** A server that works on some requests at a time, in order of arrival. */
export class QueueingUpstream extends Upstream {
  readonly #waiting: ServerResponse[] = [];
  readonly #workMs: () => number;
  #workers: number;
  #busy = 0;

  /** @param workMs  draws the time of the next request */
  constructor(workers: number, workMs: () => number) {
    super((_, answer) => {
      this.#waiting.push(answer);
      this.#startNext();
    });
    this.#workers = workers;
    this.#workMs = workMs;
  }

  /** Changes how many requests it works on at a time; those that it has begun end as before. */
  set workers(workers: number) {
    this.#workers = workers;
    this.#startNext();
  }

  #startNext(): void {
    while (this.#busy < this.#workers) {
      const answer = this.#waiting.shift();
      if (!answer) return;
      this.#busy++;
      void this.#work(answer);
    }
  }

  async #work(answer: ServerResponse): Promise<void> {
    await sleep(this.#workMs());
    answer.end();
    this.#busy--;
    this.#startNext();
  }
}
