/** Requests to a worker that it has not replied to. */
export class PendingReplies<T> {
  readonly #timeoutMs: number;
  readonly #pending = new Map<number, (reply?: T) => void>();
  #sent = 0;

  /** @param timeoutMs  how long a reply is waited for */
  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  /**
   * @param send  sends the request under a number; calls `onLost` where the worker cannot be reached
   * @returns undefined  no reply in time
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

  /** The worker has ended: none will reply. */
  giveUp(): void {
    for (const done of this.#pending.values()) done();
  }
}
