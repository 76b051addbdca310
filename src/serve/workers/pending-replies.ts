/** Requests to a worker that are waiting for a reply. */
export class PendingReplies<T> {
  readonly #timeoutMs: number;
  readonly #pending = new Map<number, (reply?: T) => void>();
  #sent = 0;

  /** @param timeoutMs  how long to wait for a reply */
  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  /**
   * @param send  sends the request under a number; calls `onLost` if the worker cannot be reached
   * @returns undefined  there was no reply in time
   */
  request(send: (number: number, onLost: () => void) => void): Promise<T | undefined> {
    return new Promise((resolve) => {
      const number = this.#sent++;
      const done = (reply?: T): void => {
        clearTimeout(timer);
        this.#pending.delete(number);
        resolve(reply);
      };
      const timer = setTimeout(done, this.#timeoutMs);
      this.#pending.set(number, done);
      send(number, () => done());
    });
  }

  received(number: number, reply: T): void {
    this.#pending.get(number)?.(reply);
  }

  /** The worker has ended: no reply will arrive. */
  giveUp(): void {
    for (const done of this.#pending.values()) done();
  }
}
