import type { AgentReply } from '../../admin/agent.ts';

/** How long a reply is waited for: longer than reading counters may take. */
const TIMEOUT_MS = 3_000;

/** Questions to a worker that it has not replied to. */
export class PendingReplies {
  readonly #pending = new Map<number, (reply?: AgentReply) => void>();
  #sent = 0;

  /**
   * @param send  sends the question under a number; calls `onLost` where the worker cannot be reached
   * @returns undefined  no reply in time
   */
  ask(send: (number: number, onLost: () => void) => void): Promise<AgentReply | undefined> {
    return new Promise((resolve) => {
      const number = this.#sent++;
      const done = (reply?: AgentReply): void => {
        clearTimeout(timer);
        this.#pending.delete(number);
        resolve(reply);
      };
      const timer = setTimeout(done, TIMEOUT_MS);
      this.#pending.set(number, done);
      send(number, done);
    });
  }

  received(number: number, reply: AgentReply): void {
    this.#pending.get(number)?.(reply);
  }

  /** The worker has ended: none will reply. */
  giveUp(): void {
    for (const done of this.#pending.values()) done();
  }
}
