import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** A server that works on some requests at a time, in order of arrival. */
export class QueueingUpstream {
  readonly #server: Server = createServer((_, answer) => {
    this.#waiting.push(answer);
    this.#startNext();
  });
  readonly #waiting: ServerResponse[] = [];
  readonly #workMs: () => number;
  #workers: number;
  #busy = 0;

  /** @param workMs  draws the time of the next request */
  constructor(workers: number, workMs: () => number) {
    this.#workers = workers;
    this.#workMs = workMs;
  }

  /** Changes how many requests it works on at a time; those that it has begun end as before. */
  set workers(workers: number) {
    this.#workers = workers;
    this.#startNext();
  }

  /** @returns the port on 127.0.0.1 */
  async listen(): Promise<number> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return (this.#server.address() as AddressInfo).port; // a TCP server
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
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
