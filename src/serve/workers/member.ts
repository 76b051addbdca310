import cluster, { type Worker } from 'node:cluster';
import { once } from 'node:events';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { Question, Reply } from '../../admin/agent.ts';
import type { PackedRules } from '../../rules/packed.ts';
import { CannotStart } from '../cannot-start.ts';
import { trackHandedConnections } from './handed-connections.ts';
import type { FromWorker, Listening, Report, ToWorker } from './messages.ts';
import { PendingReplies } from './pending-replies.ts';
import { messagesOf } from './rules.ts';

/** A worker, as the primary process sees it. */
export interface Member {
  readonly id: number;
  /** For people: `worker 3 (process 4711)`. */
  readonly name: string;
  /** Where it listens; rejects with CannotStart where it ends before. */
  readonly listening: Promise<Listening>;
  /** How it ended, `exit code 1` or `SIGKILL`, when all that it sent has been read. */
  readonly ended: Promise<string>;
  /** Sends it the rules in force, where it takes rules already. */
  sendRules(): void;
  /** Has it report; resolves when the report has been read, or does not come. */
  report(): Promise<void>;
  /** Asks it for operators; undefined where it does not reply in time. */
  ask(question: Question): Promise<Reply | undefined>;
  /** Has it answer what is under way, and end. */
  close(): void;
  kill(): void;
}

/** How long a report is waited for: a worker that hangs must not make pages hang. */
const REPORT_TIMEOUT_MS = 1_000;

/** Starts a worker: another process of this program. */
export function forkMember(
  rules: () => PackedRules | undefined,
  onReport: (id: number, report: Report) => void,
): Member {
  const worker = cluster.fork();
  const { id } = worker;
  const name = `worker ${id} (process ${worker.process.pid})`;
  const waiting = new Map<number, () => void>();
  const questions = new PendingReplies();
  let isListening = false;
  let takesRules = false;
  let asked = 0;
  const ended = endOf(worker);
  const listening = new Promise<Listening>((resolve, reject) => {
    worker.on('message', (message: FromWorker) => {
      switch (message.kind) {
        case 'takes_rules':
          takesRules = true;
          return sendRules();
        case 'listening':
          isListening = true;
          return resolve(message.at);
        case 'cannot_start':
          return reject(new CannotStart(message.message));
        case 'report':
          return onReport(id, message.report);
        case 'reported':
          return waiting.get(message.number)?.();
        case 'reply':
          return questions.received(message.number, message.reply);
      }
    });
    void ended.then((how) => {
      reject(new CannotStart(`${name} ended before it listened: ${how}`));
      for (const done of waiting.values()) done();
      questions.giveUp();
    });
  });
  listening.catch(() => {}); // who waits for it is told; others hear of the end
  const tell = (message: ToWorker, onLost = () => {}) => worker.send(message, (error) => error && onLost()); // its end is heard of

  const sendRules = (): void => {
    if (takesRules) for (const message of messagesOf(rules())) tell(message);
  };

  return {
    ...{ id, name, listening, ended, sendRules },
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
    ask: (question) => questions.ask((number, onLost) => tell({ kind: 'ask', number, question }, onLost)),
    close() {
      if (isListening) tell({ kind: 'close' });
      else worker.process.kill(); // it answers nobody yet
    },
    kill: () => void worker.process.kill('SIGKILL'),
  };
}

/** How long the last messages of a worker that has exited are waited for. */
const LAST_MESSAGES_MS = 1_000;
const POLL_MS = 10;

/**
 * Resolves when the worker has exited and its messages have been read: the channel ends after the last one. Node does not report that end where the
 * worker died with a connection on its way to it, so the event is not waited for.
 */
async function endOf(worker: Worker): Promise<string> {
  const closeHandedConnections = trackHandedConnections(worker);
  try {
    const [code, signal] = await once(worker, 'exit');
    const endMs = performance.now() + LAST_MESSAGES_MS;
    while (worker.process.connected && performance.now() < endMs) await sleep(POLL_MS);
    await nextTurn(); // messages that were read are emitted a tick later
    closeHandedConnections();
    worker.process.emit('disconnect'); // has the cluster module forget the worker, where nothing else did
    return signal ?? `exit code ${code}`;
  } catch (error) {
    return `no process: ${error instanceof Error ? error.message : error}`; // 'error' replaces 'exit' then
  }
}
