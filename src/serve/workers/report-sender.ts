import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FromWorker, Report } from './messages.ts';
import { partsOf } from './reporter.ts';

/** Sends a worker's reports, one at a time. */
export class ReportSender {
  /** Creates the next report. */
  take: () => Report;
  readonly #send: (message: FromWorker) => Promise<void>;
  /** The report that is being sent. */
  #sending = Promise.resolve();

  constructor(send: (message: FromWorker) => Promise<void>, take: () => Report) {
    this.#send = send;
    this.take = take;
  }

  send(): Promise<void> {
    this.#sending = this.#sending.then(async () => {
      for (const part of partsOf(this.take())) {
        await this.#send({ kind: 'report', report: part });
        await nextTurn();
      }
    });
    return this.#sending;
  }
}
