import cluster, { type Worker } from 'node:cluster';
import type { Socket } from 'node:net';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../../operate/observe/log.ts';
import type { FromWorker, Listening, SpreadMessage, ToWorker } from '../link/messages.ts';
import { CannotStart } from '../parts/start-up.ts';
import type { DeciderEvents, KeptState } from './deciders.ts';
import type { HandedConnections } from './handed-connections.ts';
import { noProcess } from './restarts.ts';
import { type Silence, watchSilence } from './silence.ts';

interface WorkerOptions {
  readonly kept: KeptState;
  /** Shared by all workers. */
  readonly connections: HandedConnections;
  /** The last usable contents of files, which workers send for those that start later. */
  readonly files: Map<string, Readonly<Record<string, unknown>>>;
  readonly events: Pick<DeciderEvents, 'onReply' | 'onNeverReached'>;
  readonly log: Logger;
}

/**
 * A worker process, as seen by the supervisor.
 *
 * @throws Error if it cannot be started; some reasons, such as a lack of descriptors, end it instead
 */
export class WorkerHandle {
  readonly id: number;
  /** For messages: `worker 3 (process 4711)`. */
  readonly name: string;
  /** Its addresses; rejects with CannotStart if it ends before it listens. */
  readonly listening: Promise<Listening>;
  /** Resolves when it has ended and its messages are read: `exit code 1` or `SIGKILL`. */
  readonly ended: Promise<string>;
  readonly #worker = cluster.fork();
  readonly #kept: KeptState;
  readonly #connections: HandedConnections;
  readonly #silence: Silence;
  #isListening = false;
  #takesRules = false;

  constructor({ kept, connections, files, events, log }: WorkerOptions) {
    this.id = this.#worker.id;
    const { pid } = this.#worker.process;
    this.name = `worker ${this.id}${pid === undefined ? '' : ` (process ${pid})`}`;
    this.#kept = kept;
    this.#connections = connections;
    this.#silence = watchSilence(this.name, this.#worker.process, log);
    this.ended = waitForWorkerEnd(this.#worker);
    void this.ended.then(() => connections.ended(this));
    this.listening = new Promise<Listening>((resolve, reject) => {
      this.#worker.on('message', (message: FromWorker) => {
        this.#silence.heard();
        switch (message.kind) {
          case 'listening':
            this.#isListening = true;
            return resolve(message.at);
          case 'cannot_start':
            reject(new CannotStart(message.message));
            if (this.#isListening) events.onNeverReached(new CannotStart(message.message));
            return;
          case 'takes_files':
            return this.send({ kind: 'files', usable: files });
          case 'files':
            for (const [paths, texts] of message.usable) files.set(paths, texts);
            return;
          case 'takes_rules':
            return this.#sendKept();
          case 'listen':
            return void this.#listen(message);
          case 'leave':
            return connections.leave(message.at, this);
          case 'answered':
            return connections.answered(message.number, message.isTaken);
          default:
            return events.onReply(this.id, message);
        }
      });
      void this.ended.then((how) => reject(new CannotStart(`${this.name} exited before it was listening: ${how}`)));
    });
    this.listening.catch(() => {}); // callers that await it receive the error; others use `ended`
  }

  async #listen({ at, address }: Extract<FromWorker, { kind: 'listen' }>): Promise<void> {
    try {
      this.send({ kind: 'bound', at, port: await this.#connections.listen(at, address, this) });
    } catch (error) {
      this.send({ kind: 'bound', at, message: error instanceof Error ? error.message : String(error) });
    }
  }

  #sendKept(): void {
    this.#takesRules = true;
    for (const message of this.#kept.messages()) this.send(message);
    const overrides = this.#kept.overrides();
    if (overrides) this.send({ kind: 'ask', number: UNNUMBERED, question: { kind: 'overrides', overrides } });
  }

  /** Sends a message, if the worker is ready to receive rules: it is kept for others. */
  spread(message: SpreadMessage): void {
    if (this.#takesRules) this.send(message);
  }

  /** Lets the worker answer calls in flight, then end. */
  close(): void {
    if (this.#isListening) this.send({ kind: 'close' });
    else this.#worker.process.kill(); // it has no calls yet
  }

  kill(): void {
    this.#worker.process.kill('SIGKILL');
  }

  /** If the worker has ended, `ended` reports it. */
  send(message: ToWorker, connection?: Socket): void {
    if (!this.#worker.isConnected()) return;
    if (message.kind === 'report') this.#silence.expect(); // it is answered at once, whatever else the worker does
    this.#worker.send(message, connection, { keepOpen: true }, () => {});
  }
}

/** The number of a question whose reply is ignored. */
const UNNUMBERED = -1;

/** How long to wait for the last messages of an exited worker. */
const LAST_MESSAGES_MS = 1_000;
const POLL_MS = 10;

/**
 * Resolves when the worker has exited and its messages have been read: the channel ends after the last one. Node does
 * not report that end if the worker died while a connection was on its way to it, so the channel is polled instead.
 */
async function waitForWorkerEnd(worker: Worker): Promise<string> {
  const { process: child } = worker;
  const ended = new Promise<string>((resolve) => {
    // not `once`: the worker may emit further errors later, such as for a failed message or signal
    worker.on('error', (error) => child.pid === undefined && resolve(noProcess(error)));
    worker.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`));
  });
  const how = await ended;
  const endMs = performance.now() + LAST_MESSAGES_MS;
  while (child.connected && performance.now() < endMs) await sleep(POLL_MS);
  await nextTurn(); // messages that were read are emitted a tick later
  child.emit('disconnect'); // makes the cluster module forget the worker, in case nothing else did
  return how;
}
