import cluster, { type Worker } from 'node:cluster';
import { once } from 'node:events';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { AgentQuestion, AgentReply } from '../admin/agent.ts';
import type { PackedRules } from '../rules/packed.ts';
import { CannotStart } from '../start-up.ts';
import { trackHandedConnections } from './handed-connections.ts';
import type { FromWorker, Listening, Report, ToWorker } from './messages.ts';
import { PendingReplies } from './pending-replies.ts';
import { messagesOf } from './rules-messages.ts';

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
export const spawnWorker = (sent: SentRules, onReport: (id: number, report: Report) => void): WorkerHandle =>
  new SpawnedWorker(sent, onReport);

class SpawnedWorker implements WorkerHandle {
  readonly id: number;
  readonly name: string;
  readonly listening: Promise<Listening>;
  readonly ended: Promise<string>;
  readonly #worker = cluster.fork();
  readonly #sent: SentRules;
  readonly #reports = new PendingReplies<true>(REPORT_TIMEOUT_MS);
  readonly #questions = new PendingReplies<AgentReply>(REPLY_TIMEOUT_MS);
  #isListening = false;
  #takesRules = false;

  constructor(sent: SentRules, onReport: (id: number, report: Report) => void) {
    this.id = this.#worker.id;
    this.name = `worker ${this.id} (process ${this.#worker.process.pid})`;
    this.#sent = sent;
    this.ended = endOf(this.#worker);
    this.listening = new Promise<Listening>((resolve, reject) => {
      this.#worker.on('message', (message: FromWorker) => {
        switch (message.kind) {
          case 'listening':
            this.#isListening = true;
            return resolve(message.at);
          case 'cannot_start':
            return reject(new CannotStart(message.message));
          case 'report':
            return onReport(this.id, message.report);
          default:
            return this.#received(message);
        }
      });
      void this.ended.then((how) => {
        reject(new CannotStart(`${this.name} ended before it listened: ${how}`));
        this.#reports.giveUp();
        this.#questions.giveUp();
      });
    });
    this.listening.catch(() => {}); // callers that await it receive the error; others use `ended`
  }

  #received(message: Extract<FromWorker, { kind: 'takes_rules' | 'reported' | 'reply' }>): void {
    switch (message.kind) {
      case 'takes_rules':
        this.#takesRules = true;
        this.sendRules();
        if (this.#sent.candidate()) this.sendCandidate();
        return;
      case 'reported':
        return this.#reports.received(message.number, true);
      case 'reply':
        return this.#questions.received(message.number, message.reply);
    }
  }

  sendRules(): void {
    if (this.#takesRules) for (const message of messagesOf(this.#sent.rules())) this.#send(message);
  }

  sendCandidate(): void {
    if (!this.#takesRules) return;
    for (const message of messagesOf(this.#sent.candidate())) this.#send({ kind: 'candidate', message });
  }

  async report(): Promise<void> {
    await this.#reports.request((number, onLost) => this.#send({ kind: 'report', number }, onLost));
  }

  ask(question: AgentQuestion): Promise<AgentReply | undefined> {
    return this.#questions.request((number, onLost) => this.#send({ kind: 'ask', number, question }, onLost));
  }

  close(): void {
    if (this.#isListening) this.#send({ kind: 'close' });
    else this.#worker.process.kill(); // it has no calls yet
  }

  kill(): void {
    this.#worker.process.kill('SIGKILL');
  }

  /** Its end is reported by `ended`. */
  #send(message: ToWorker, onLost = () => {}): void {
    this.#worker.send(message, (error) => error && onLost());
  }
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
