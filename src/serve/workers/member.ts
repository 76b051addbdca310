import cluster, { type Worker } from 'node:cluster';
import { once } from 'node:events';
import { CannotStart } from '../cannot-start.ts';
import type { FromWorker, Listening, Report, ToWorker } from './messages.ts';

/** A worker, as the primary process sees it. */
export interface Member {
  readonly id: number;
  /** For people: `worker 3 (process 4711)`. */
  readonly name: string;
  /** Where it listens; rejects with CannotStart where it ends before. */
  readonly listening: Promise<Listening>;
  /** How it ended, `exit code 1` or `SIGKILL`, when all that it sent has been read. */
  readonly ended: Promise<string>;
  /** Has it report; resolves when the report has been read, or does not come. */
  report(): Promise<void>;
  /** Has it answer what is under way, and end. */
  close(): void;
  kill(): void;
}

/** How long a report is waited for: a worker that hangs must not make pages hang. */
const REPORT_TIMEOUT_MS = 1_000;

/** Starts a worker: another process of this program. */
export function forkMember(onReport: (id: number, report: Report) => void): Member {
  const worker = cluster.fork();
  const { id } = worker;
  const name = `worker ${id} (process ${worker.process.pid})`;
  const waiting = new Map<number, () => void>();
  let isListening = false;
  let asked = 0;
  const ended = endOf(worker);
  const listening = new Promise<Listening>((resolve, reject) => {
    worker.on('message', (message: FromWorker) => {
      switch (message.kind) {
        case 'listening':
          isListening = true;
          return resolve(message.at);
        case 'cannot_start':
          return reject(new CannotStart(message.message));
        case 'report':
          onReport(id, message.report);
          if (message.number !== undefined) waiting.get(message.number)?.();
      }
    });
    void ended.then((how) => {
      reject(new CannotStart(`${name} ended before it listened: ${how}`));
      for (const done of waiting.values()) done();
    });
  });
  listening.catch(() => {}); // who waits for it is told; others hear of the end
  const tell = (message: ToWorker, onLost = () => {}) => worker.send(message, (error) => error && onLost()); // its end is heard of

  return {
    ...{ id, name, listening, ended },
    report: () =>
      new Promise((resolve) => {
        const number = asked++;
        const done = (): void => {
          clearTimeout(timer);
          waiting.delete(number);
          resolve();
        };
        const timer = setTimeout(done, REPORT_TIMEOUT_MS);
        waiting.set(number, done);
        tell({ kind: 'report', number }, done);
      }),
    close() {
      if (isListening) tell({ kind: 'close' });
      else worker.process.kill(); // it answers nobody yet
    },
    kill: () => void worker.process.kill('SIGKILL'),
  };
}

/** The process may end before what it sent has been read; that has been when the channel ends. */
async function endOf(worker: Worker): Promise<string> {
  try {
    const [[code, signal]] = await Promise.all([once(worker, 'exit'), once(worker, 'disconnect')]);
    return signal ?? `exit code ${code}`;
  } catch (error) {
    return `no process: ${error instanceof Error ? error.message : error}`; // as an 'error' says it, in place of both
  }
}
