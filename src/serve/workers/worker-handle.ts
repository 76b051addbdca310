import cluster, { type Worker } from 'node:cluster';
import { once } from 'node:events';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { AgentQuestion, AgentReply } from '../../admin/agent.ts';
import type { PackedRules } from '../../rules/packed.ts';
import { CannotStart } from '../cannot-start.ts';
import { trackHandedConnections } from './handed-connections.ts';
import type { FromWorker, Listening, Report, ToWorker } from './messages.ts';
import { PendingReplies } from './pending-replies.ts';
import { messagesOf } from './rules.ts';

/** A worker, as seen by the primary process. */
export interface WorkerHandle {
  readonly id: number;
  /** For messages: `worker 3 (process 4711)`. */
  readonly name: string;
  /** Its addresses; rejects with CannotStart if it ends before it listens. */
  readonly listening: Promise<Listening>;
  /** Resolves when it has ended and its messages are read: `exit code 1` or `SIGKILL`. */
  readonly ended: Promise<string>;
  /** Sends the rules in force, if it is ready to receive them. */
  sendRules(): void;
  /** Sends the candidate, or that there is none, in the same way. */
  sendCandidate(): void;
  /** Requests a report; resolves when it has been read, or after a timeout. */
  report(): Promise<void>;
  /** Sends a question; undefined if it does not reply in time. */
  ask(question: AgentQuestion): Promise<AgentReply | undefined>;
  /** Lets the worker answer calls in flight, then end. */
  close(): void;
  kill(): void;
}

/** Timeout of a report: a worker that hangs must not block pages. */
const REPORT_TIMEOUT_MS = 1_000;
/** Timeout of a reply to an operator's question: longer than reading counters may take. */
const REPLY_TIMEOUT_MS = 3_000;

/** What workers are sent: the rules in force, and the candidate. */
export interface SentRules {
  rules(): PackedRules | undefined;
  candidate(): PackedRules | undefined;
}

/** Starts a worker process. */
export function spawnWorker(
  { rules, candidate }: SentRules,
  onReport: (id: number, report: Report) => void,
): WorkerHandle {
  const worker = cluster.fork();
  const { id } = worker;
  const name = `worker ${id} (process ${worker.process.pid})`;
  const reports = new PendingReplies<true>(REPORT_TIMEOUT_MS);
  const questions = new PendingReplies<AgentReply>(REPLY_TIMEOUT_MS);
  let isListening = false;
  let takesRules = false;
  const ended = endOf(worker);
  const listening = new Promise<Listening>((resolve, reject) => {
    worker.on('message', (message: FromWorker) => {
      switch (message.kind) {
        case 'takes_rules':
          takesRules = true;
          sendRules();
          return candidate() ? sendCandidate() : undefined;
        case 'listening':
          isListening = true;
          return resolve(message.at);
        case 'cannot_start':
          return reject(new CannotStart(message.message));
        case 'report':
          return onReport(id, message.report);
        case 'reported':
          return reports.received(message.number, true);
        case 'reply':
          return questions.received(message.number, message.reply);
      }
    });
    void ended.then((how) => {
      reject(new CannotStart(`${name} ended before it listened: ${how}`));
      reports.giveUp();
      questions.giveUp();
    });
  });
  listening.catch(() => {}); // callers that await it receive the error; others use `ended`
  // `ended` reports its end
  const send = (message: ToWorker, onLost = () => {}) => worker.send(message, (error) => error && onLost());

  const sendRules = (): void => {
    if (takesRules) for (const message of messagesOf(rules())) send(message);
  };

  const sendCandidate = (): void => {
    if (takesRules) for (const message of messagesOf(candidate())) send({ kind: 'candidate', message });
  };

  return {
    ...{ id, name, listening, ended, sendRules, sendCandidate },
    async report() {
      await reports.request((number, onLost) => send({ kind: 'report', number }, onLost));
    },
    ask: (question) => questions.request((number, onLost) => send({ kind: 'ask', number, question }, onLost)),
    close() {
      if (isListening) send({ kind: 'close' });
      else worker.process.kill(); // it has no calls yet
    },
    kill: () => void worker.process.kill('SIGKILL'),
  };
}

/** How long to wait for the last messages of an exited worker. */
const LAST_MESSAGES_MS = 1_000;
const POLL_MS = 10;

/**
 * Resolves when the worker has exited and its messages have been read: the channel ends after the last one. Node does
 * not report that end where the worker died with a connection on its way to it, so the event is not waited for.
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
