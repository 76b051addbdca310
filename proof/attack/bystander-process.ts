import { connect, type Socket } from 'node:net';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { status } from '@grpc/grpc-js';
import { Flag, FRAME_HEADER_BYTES, FrameType, PREFACE } from '../../src/h2/http2/frames.ts';
import { HpackDecoder } from '../../src/h2/http2/hpack/decoder.ts';
import { callFields, data, frame, framed, settings, windowUpdate } from '../../test/helpers/h2-client.ts';
import { encodeRequestHeaders } from '../bench/generator/request-headers.ts';
import { serveParent } from '../processes/child.ts';
import type { BystanderQuestion, Sight } from './bystander.ts';
import { ordinaryMessage } from './messages.ts';

const INTERVAL_MS = 5;
/** A call that waits no longer counts as served normally. */
const SERVED_MS = 50;
const RECONNECT_MS = 20;
const WINDOW_EVERY_CALLS = 500;
const WINDOW_BYTES = 65_535;
const MAX_HEAD_BYTES = 65_536;

const fields = callFields().map(([name, value]) => ({ name, value }));
const headers = encodeRequestHeaders(fields);
const body = framed(ordinaryMessage('bystander'));
const delay = monitorEventLoopDelay({ resolution: 10 });

let tally = emptyTally();
let connection: Connection | undefined;

serveParent<BystanderQuestion, Sight>(async (question) => {
  if (question.kind === 'start') {
    delay.enable();
    connection = new Connection(question.port, question.tls);
    let due = performance.now();
    setInterval(() => {
      for (; due <= performance.now(); due += INTERVAL_MS) connection?.call();
    }, INTERVAL_MS);
  } else await untilServed(question.settleMs);
  return report();
});

/** Waits until no call waits noticeably, for at most `settleMs`. */
async function untilServed(settleMs: number): Promise<void> {
  const deadlineMs = performance.now() + settleMs;
  while ((connection?.longestWaitMs() ?? 0) > SERVED_MS && performance.now() < deadlineMs) await sleep(INTERVAL_MS);
}

function emptyTally() {
  return { calls: 0, answered: 0, refused: 0, failures: {} as Record<string, number>, longestWaitMs: 0 };
}

function report(): Sight {
  const waiting = connection?.longestWaitMs() ?? 0;
  const sight = { ...tally, longestWaitMs: Math.max(tally.longestWaitMs, waiting), ownStallMs: delay.max / 1e6 };
  tally = emptyTally();
  delay.reset();
  return sight;
}

/** Counts a finished call that was sent at `sentMs`. */
function count(sentMs: number, outcome: 'answered' | 'refused' | { readonly failure: string }): void {
  tally.longestWaitMs = Math.max(tally.longestWaitMs, performance.now() - sentMs);
  if (typeof outcome === 'string') tally[outcome]++;
  else tally.failures[outcome.failure] = (tally.failures[outcome.failure] ?? 0) + 1;
}

/** A connection that is replaced when it is lost. */
class Connection {
  readonly #port: number;
  readonly #tls: boolean;
  /** The send times of unfinished calls, by stream. */
  readonly #sentMs = new Map<number, number>();
  #socket: Socket;
  #isLost = false;
  #decoder = new HpackDecoder(MAX_HEAD_BYTES);
  #rest = Buffer.alloc(0);
  #nextStreamId = 1;

  constructor(port: number, tls: boolean) {
    this.#port = port;
    this.#tls = tls;
    this.#socket = this.#open();
  }

  call(): void {
    tally.calls++;
    if (this.#isLost) return count(performance.now(), { failure: 'connection lost' });
    const id = this.#nextStreamId;
    const block = id === 1 ? headers.first : headers.later;
    this.#nextStreamId += 2;
    this.#sentMs.set(id, performance.now());
    const frames = [frame(FrameType.HEADERS, Flag.END_HEADERS, id, block), data(id, body, true)];
    if (id % WINDOW_EVERY_CALLS === 1) frames.push(windowUpdate(0, WINDOW_BYTES));
    this.#socket.write(Buffer.concat(frames));
  }

  /** Longest wait among unfinished calls. */
  longestWaitMs(): number {
    const [oldest] = this.#sentMs.values();
    return oldest === undefined ? 0 : performance.now() - oldest;
  }

  #open(): Socket {
    const at = { port: this.#port, host: '127.0.0.1' };
    const socket = this.#tls ? connectTls({ ...at, rejectUnauthorized: false, ALPNProtocols: ['h2'] }) : connect(at);
    this.#isLost = false;
    this.#decoder = new HpackDecoder(MAX_HEAD_BYTES);
    this.#rest = Buffer.alloc(0);
    this.#nextStreamId = 1;
    socket.setNoDelay(true);
    socket.write(Buffer.concat([PREFACE, settings(), windowUpdate(0, WINDOW_BYTES)]));
    socket.on('data', (chunk: Buffer) => this.#read(chunk));
    socket.on('error', () => {}); // 'close' comes next
    socket.once('close', () => {
      this.#isLost = true;
      for (const sentMs of this.#sentMs.values()) count(sentMs, { failure: 'connection lost' });
      this.#sentMs.clear();
      setTimeout(() => {
        this.#socket = this.#open();
      }, RECONNECT_MS);
    });
    return socket;
  }

  #read(chunk: Buffer): void {
    const bytes = this.#rest.length > 0 ? Buffer.concat([this.#rest, chunk]) : chunk;
    let at = 0;
    while (bytes.length - at >= FRAME_HEADER_BYTES) {
      const end = at + FRAME_HEADER_BYTES + bytes.readUIntBE(at, 3);
      if (end > bytes.length) break;
      this.#take(
        bytes[at + 3] ?? 0,
        bytes[at + 4] ?? 0,
        bytes.readUInt32BE(at + 5),
        bytes,
        at + FRAME_HEADER_BYTES,
        end,
      );
      at = end;
    }
    this.#rest = Buffer.from(bytes.subarray(at));
  }

  #take(type: number, flags: number, streamId: number, bytes: Buffer, from: number, to: number): void {
    if (type === FrameType.SETTINGS && !(flags & Flag.ACK)) this.#socket.write(frame(FrameType.SETTINGS, Flag.ACK, 0));
    if (type === FrameType.PING && !(flags & Flag.ACK))
      this.#socket.write(frame(FrameType.PING, Flag.ACK, 0, Buffer.from(bytes.subarray(from, to))));
    if (type === FrameType.RST_STREAM) this.#end(streamId, { failure: 'reset' });
    if (type === FrameType.GOAWAY) this.#socket.end();
    if (type !== FrameType.HEADERS) return;
    const decoded = this.#decoder.decode(bytes, from, to); // unused blocks too: later ones depend on them
    if (decoded === 'too large' || !(flags & Flag.END_STREAM)) return;
    const code = Number(decoded.find(({ name }) => name === 'grpc-status')?.value ?? Number.NaN);
    if (code === status.OK) this.#end(streamId, 'answered');
    else if (code === status.RESOURCE_EXHAUSTED) this.#end(streamId, 'refused');
    else this.#end(streamId, { failure: `status ${code}` });
  }

  #end(streamId: number, outcome: Parameters<typeof count>[1]): void {
    const sentMs = this.#sentMs.get(streamId);
    if (sentMs === undefined) return;
    this.#sentMs.delete(streamId);
    count(sentMs, outcome);
  }
}
