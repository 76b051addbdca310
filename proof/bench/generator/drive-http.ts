import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createHistogram } from 'node:perf_hooks';
import { createPacer, type Line, type Pace } from './pace.ts';

/** Requests to send through a proxy over HTTP/1.1, so at most one is in flight on each connection. */
export interface HttpLoad {
  /** A port on 127.0.0.1. */
  readonly port: number;
  readonly connections: number;
  readonly pace: Pace;
  /** The values of the header `x-user`: each connection sends one of them, in turn. */
  readonly users: readonly string[];
}

/** The result of a load whose requests were all answered. */
export interface HttpTally {
  readonly answers: Readonly<Record<HttpOutcome, number>>;
  /** The number of requests that were due while their connection waited for an answer; they were not sent. */
  readonly notSent: number;
  /** Time from the first request to the last answer. */
  readonly elapsedMs: number;
  /** Measured from when a request was due. */
  readonly p99Ms: number;
}

/**
 * What the proxy did with a request. It adds `x-ratelimit-*` headers only to answers of the rate limit service:
 * UNLIMITED passed without a decision, and FAILED did not pass without one.
 */
type HttpOutcome = 'ADMITTED' | 'REFUSED' | 'UNLIMITED' | 'FAILED';

const STALL_MS = 60_000;
const NS_PER_MS = 1e6;

/** @throws  a connection was closed, an answer was malformed, or no answer came for a minute */
export async function driveHttp({ port, connections: count, pace, users }: HttpLoad): Promise<HttpTally> {
  const answers = { ADMITTED: 0, REFUSED: 0, UNLIMITED: 0, FAILED: 0 };
  const latencyNs = createHistogram();
  const connections: HttpConnection[] = [];
  const pacer = createPacer(pace, connections);
  let notSent = 0;
  let startMs = 0;
  let endMs = 0;
  let stall: NodeJS.Timeout | undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      stall = setTimeout(() => reject(new Error(`no answer came for ${STALL_MS} ms`)), STALL_MS);
      const onAnswer = (outcome: HttpOutcome, dueMs: number, connection: Line) => {
        endMs = performance.now();
        answers[outcome]++;
        latencyNs.record(Math.ceil((endMs - dueMs) * NS_PER_MS) + 1); // the histogram does not accept 0
        stall?.refresh();
        if (pacer.answered(connection, endMs)) resolve();
      };
      const onBusy = (connection: Line) => {
        notSent++;
        if (pacer.answered(connection, performance.now())) resolve();
      };
      const open = async (_: unknown, at: number) => {
        const request = createRequest(users[at % users.length] ?? '');
        connections.push(await HttpConnection.open({ port, request, onAnswer, onBusy, onFailure: reject }));
      };
      Promise.all(Array.from({ length: count }, open)).then(() => {
        startMs = performance.now();
        pacer.begin(startMs);
      }, reject);
    });
  } finally {
    clearTimeout(stall);
    pacer.stop();
    for (const connection of connections) connection.close();
  }
  return { answers, notSent, elapsedMs: endMs - startMs, p99Ms: latencyNs.percentile(99) / NS_PER_MS };
}

const createRequest = (user: string): Buffer =>
  Buffer.from(`GET / HTTP/1.1\r\nhost: localhost\r\nx-user: ${user}\r\n\r\n`, 'latin1');

interface HttpConnectionOptions {
  readonly port: number;
  readonly request: Buffer;
  readonly onAnswer: (outcome: HttpOutcome, dueMs: number, connection: Line) => void;
  /** Called instead of sending a request while another one is in flight. */
  readonly onBusy: (connection: Line) => void;
  /** Called for a failed connection; there are no answers afterwards. */
  readonly onFailure: (error: Error) => void;
}

/** A client's connection that sends one constant request at a time, and reads just enough of the answers. */
class HttpConnection implements Line {
  readonly #options: HttpConnectionOptions;
  readonly #socket: Socket;
  /** When the request in flight was due. */
  #dueMs: number | undefined;
  /** An incomplete answer. */
  #unread = '';
  #isOver = false;

  static async open(options: HttpConnectionOptions): Promise<HttpConnection> {
    const socket = connect({ port: options.port, host: '127.0.0.1', noDelay: true });
    await once(socket, 'connect');
    return new HttpConnection(socket, options);
  }

  private constructor(socket: Socket, options: HttpConnectionOptions) {
    this.#options = options;
    this.#socket = socket.setEncoding('latin1');
    socket.on('error', (error) => this.#fail(error));
    socket.on('close', () => this.#fail(new Error('the proxy has closed a connection')));
    socket.on('data', (text: string) => {
      try {
        this.#read(this.#unread + text);
      } catch (error) {
        this.#fail(error as Error); // everything thrown here is an Error
      }
    });
  }

  call(dueMs: number): void {
    if (this.#dueMs !== undefined) return this.#options.onBusy(this);
    this.#dueMs = dueMs;
    this.#socket.write(this.#options.request);
  }

  flush(): void {} // `call` has sent it

  close(): void {
    this.#isOver = true;
    this.#socket.destroy();
  }

  #read(text: string): void {
    const outcome = readHttpAnswer(text);
    this.#unread = outcome === undefined ? text : '';
    const dueMs = this.#dueMs;
    if (outcome === undefined || this.#isOver) return;
    if (dueMs === undefined) throw new Error('the proxy answered without a request in flight');
    this.#dueMs = undefined;
    this.#options.onAnswer(outcome, dueMs, this);
  }

  #fail(error: Error): void {
    if (this.#isOver) return;
    this.close();
    this.#options.onFailure(error);
  }
}

/** Reads an answer; undefined if it is incomplete. @throws  it is not a single answer of known length */
function readHttpAnswer(text: string): HttpOutcome | undefined {
  const end = text.indexOf('\r\n\r\n');
  if (end < 0) return undefined;
  const head = text.slice(0, end);
  const length = /\r\ncontent-length: (\d+)/.exec(head)?.[1];
  if (length === undefined) throw new Error(`an answer must have a content-length, got ${head}`);
  const missing = end + 4 + Number(length) - text.length;
  if (missing < 0) throw new Error(`an answer must have ${length} bytes of content, got ${-missing} more`);
  if (missing > 0) return undefined;
  const status = head.slice(9, 12);
  if (status === '429') return 'REFUSED';
  if (status !== '200') return 'FAILED';
  return head.includes('\r\nx-ratelimit-limit:') ? 'ADMITTED' : 'UNLIMITED';
}
