import cluster, { type Worker } from 'node:cluster';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { PackedRules } from '../../engine/rules/compile/packed.ts';
import { usableFiles } from '../../h2/listen/usable-files.ts';
import type { AgentQuestion, AgentReply } from '../../operate/admin/agent.ts';
import { CannotStart } from '../parts/start-up.ts';
import type { HandedConnections } from './handed-connections.ts';
import type { FromWorker, Listening, Report, ToWorker } from './messages.ts';
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

/** The rules that workers receive: those in force, and the candidate. */
interface SentRules {
  rules(): PackedRules | undefined;
  candidate(): PackedRules | undefined;
}

/**
 * Starts a worker process. A worker that could not be started, for lack of memory or file descriptors, counts as ended.
 *
 * @param connections  shared by all workers
 */
export function spawnWorker(
  sent: SentRules,
  connections: HandedConnections,
  onReport: (id: number, report: Report) => void,
): WorkerHandle {
  try {
    return new SpawnedWorker(sent, connections, onReport);
  } catch (error) {
    return neverStarted(noProcess(error)); // Node throws some reasons, such as ENOMEM, and emits others
  }
}

function neverStarted(how: string): WorkerHandle {
  const listening = Promise.reject(new CannotStart(how));
  listening.catch(() => {}); // as for other workers
  const ignored = (): void => {};
  return {
    ...{ id: 0, name: 'a worker', listening, ended: Promise.resolve(how) },
    ...{ sendRules: ignored, sendCandidate: ignored, close: ignored, kill: ignored },
    report: async () => {},
    ask: async () => undefined,
  };
}

const noProcess = (error: unknown): string => `no process: ${error instanceof Error ? error.message : error}`;

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

  constructor(sent: SentRules, connections: HandedConnections, onReport: (id: number, report: Report) => void) {
    this.id = this.#worker.id;
    const { pid } = this.#worker.process;
    this.name = `worker ${this.id}${pid === undefined ? '' : ` (process ${pid})`}`;
    this.#sent = sent;
    this.ended = endOf(this.#worker, connections);
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

  #received(message: Extract<FromWorker, { kind: 'takes_files' | 'takes_rules' | 'reported' | 'reply' }>): void {
    switch (message.kind) {
      case 'takes_files':
        return this.#send({ kind: 'files', usable: usableFiles() });
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

  /** If the worker has ended, `ended` reports it. */
  #send(message: ToWorker, onLost = () => {}): void {
    if (!this.#worker.isConnected()) return onLost(); // without a process, there is no channel
    this.#worker.send(message, (error) => error && onLost());
  }
}

/** How long to wait for the last messages of an exited worker. */
const LAST_MESSAGES_MS = 1_000;
const POLL_MS = 10;

/**
 * Resolves when the worker has exited and its messages have been read: the channel ends after the last one. Node does
 * not report that end if the worker died while a connection was on its way to it, so the channel is polled instead.
 */
async function endOf(worker: Worker, connections: HandedConnections): Promise<string> {
  const { process: child } = worker;
  const ended = new Promise<string>((resolve) => {
    // not `once`: the worker may emit further errors later, such as for a failed message or signal
    worker.on('error', (error) => child.pid === undefined && resolve(noProcess(error)));
    worker.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`));
  });
  // without file descriptors, there is no channel, and nothing is passed to the worker
  const closeHandedConnections = child.connected ? connections.track(child) : () => {};
  const how = await ended;
  const endMs = performance.now() + LAST_MESSAGES_MS;
  while (child.connected && performance.now() < endMs) await sleep(POLL_MS);
  await nextTurn(); // messages that were read are emitted a tick later
  child.emit('disconnect'); // makes the cluster module forget the worker, in case nothing else did
  closeHandedConnections();
  return how;
}

/** Requests to a worker that are waiting for a reply. */
class PendingReplies<T> {
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
