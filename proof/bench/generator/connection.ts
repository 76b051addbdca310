import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import {
  DEFAULT_WINDOW,
  Flag,
  FRAME_HEADER_BYTES,
  FrameType,
  MAX_WINDOW,
  PREFACE,
  Setting,
} from '../../../src/h2/http2/frames.ts';
import { HpackDecoder } from '../../../src/h2/http2/hpack/decoder.ts';
import type { HeaderField } from '../../../src/h2/http2/hpack/field.ts';
import { type Outcome, readAnswer } from './answer.ts';
import type { RequestHeaders } from './request-headers.ts';
import type { Requests } from './requests.ts';

const SETTING_BYTES = 6;
const WRITE_BUFFER_BYTES = 1024 * 1024;
const DEFAULT_TABLE_SIZE = 4_096;
const MAX_FIELDS_BYTES = 65_536;
/** The payload of RST_STREAM. */
const CANCEL = Buffer.of(0, 0, 0, 8);

export interface ConnectionOptions {
  /** A port on 127.0.0.1. */
  readonly port: number;
  readonly headers: RequestHeaders;
  readonly requests: Requests;
  /** Whether calls may be refused; otherwise a refusal is a failure. */
  readonly mayRefuse: boolean;
  /** When calls are reset, as REFUSED; undefined for never. */
  readonly deadlineMs: number | undefined;
  /** @param startedMs  the argument of `call` */
  readonly onAnswer: (outcome: Outcome, startedMs: number, connection: Connection) => void;
  /** Called for a failed call or connection; there are no answers afterwards. */
  readonly onFailure: (error: Error) => void;
}

interface Call {
  readonly startedMs: number;
  data: Buffer | undefined;
}

/**
 * A client's connection that speaks just enough HTTP/2 (prior knowledge, cleartext) for cheap unary gRPC calls: it
 * sends all calls of one turn in one write, and fails on anything that a gRPC server has no reason to send.
 *
 * @see https://www.rfc-editor.org/rfc/rfc9113
 */
export class Connection {
  readonly #options: ConnectionOptions;
  readonly #socket: Socket;
  readonly #reader = new HpackDecoder(MAX_FIELDS_BYTES);
  readonly #calls = new Map<number, Call>();
  /** The start times of calls that the server does not accept yet. */
  readonly #waiting: number[] = [];
  /** 0 until the server has sent its SETTINGS. */
  #maxCalls = 0;
  /** Bytes of an incomplete frame. */
  #unread: Buffer = Buffer.alloc(0);
  #output = Buffer.allocUnsafe(WRITE_BUFFER_BYTES);
  #written = 0;
  #flushed = 0;
  #nextStream = 1;
  #sendWindowBytes = DEFAULT_WINDOW;
  #receiveWindowBytes = MAX_WINDOW;
  #isOver = false;

  /** Resolves when connected. Calls may begin immediately, but are sent only after the server's SETTINGS. */
  static async open(options: ConnectionOptions): Promise<Connection> {
    const socket = connect({ port: options.port, host: '127.0.0.1', noDelay: true });
    await once(socket, 'connect');
    return new Connection(socket, options);
  }

  private constructor(socket: Socket, options: ConnectionOptions) {
    this.#options = options;
    this.#socket = socket;
    socket.on('error', (error) => this.#fail(error));
    socket.on('close', () => this.#fail(new Error('the server has closed a connection')));
    socket.on('data', (chunk) => {
      try {
        this.#read(chunk);
        this.flush();
      } catch (error) {
        this.#fail(error as Error); // everything thrown here is an Error
      }
    });
    this.#control(PREFACE);
    this.#control(createFrame(FrameType.SETTINGS, 0, 0, Buffer.alloc(0)));
    this.#grow(MAX_WINDOW - DEFAULT_WINDOW);
    this.flush();
  }

  /** Begins a call. It is sent by the next `flush`, or after the received answers are handled. */
  call(startedMs: number): void {
    if (this.#waiting.length === 0 && this.#isReady()) this.#send(startedMs);
    else this.#waiting.push(startedMs);
  }

  flush(): void {
    if (this.#written === this.#flushed || this.#isOver) return;
    this.#socket.write(this.#output.subarray(this.#flushed, this.#written));
    this.#flushed = this.#written;
  }

  /** Resets the calls whose deadline has passed, as gRPC clients and Envoy do. */
  expire(nowMs: number): void {
    const { deadlineMs = Number.POSITIVE_INFINITY, onAnswer } = this.#options;
    const expired: number[] = [];
    for (const [stream, { startedMs }] of this.#calls) {
      if (startedMs + deadlineMs > nowMs) break;
      this.#calls.delete(stream);
      this.#control(createFrame(FrameType.RST_STREAM, 0, stream, CANCEL));
      expired.push(startedMs);
    }
    while (this.#waiting.length > 0 && (this.#waiting[0] ?? 0) + deadlineMs <= nowMs)
      expired.push(this.#waiting.shift() ?? 0);
    for (const startedMs of expired) onAnswer('REFUSED', startedMs, this);
    this.#sendWaiting();
    this.flush();
  }

  close(): void {
    this.#isOver = true;
    this.#socket.destroy();
  }

  #fail(error: Error): void {
    if (this.#isOver) return;
    this.close();
    this.#options.onFailure(error);
  }

  #isReady(): boolean {
    return this.#calls.size < this.#maxCalls && this.#sendWindowBytes >= this.#options.requests.bytes;
  }

  #send(startedMs: number): void {
    const { headers, requests } = this.#options;
    const stream = this.#nextStream; // 2^30 of them last hours at any possible rate
    const block = stream === 1 ? headers.first : headers.later;
    this.#nextStream += 2;
    this.#reserve(2 * FRAME_HEADER_BYTES + block.length + requests.bytes);
    this.#head(FrameType.HEADERS, Flag.END_HEADERS, stream, block.length);
    this.#written += block.copy(this.#output, this.#written);
    this.#head(FrameType.DATA, Flag.END_STREAM, stream, requests.bytes);
    requests.writeNext(this.#output, this.#written);
    this.#written += requests.bytes;
    this.#sendWindowBytes -= requests.bytes;
    this.#calls.set(stream, { startedMs, data: undefined });
  }

  #sendWaiting(): void {
    while (this.#isReady()) {
      const startedMs = this.#waiting.shift();
      if (startedMs === undefined) return;
      this.#send(startedMs);
    }
  }

  /** Reserves space for bytes without moving written ones, which the socket may not have sent yet. */
  #reserve(bytes: number): void {
    if (this.#written + bytes <= this.#output.length) return;
    this.flush();
    this.#output = Buffer.allocUnsafe(WRITE_BUFFER_BYTES);
    this.#written = 0;
    this.#flushed = 0;
  }

  #head(type: number, flags: number, stream: number, bytes: number): void {
    writeHead(this.#output, this.#written, { type, flags, stream, bytes });
    this.#written += FRAME_HEADER_BYTES;
  }

  #control(bytes: Buffer): void {
    this.#reserve(bytes.length);
    this.#written += bytes.copy(this.#output, this.#written);
  }

  #grow(bytes: number): void {
    const payload = Buffer.alloc(4);
    payload.writeUInt32BE(bytes);
    this.#control(createFrame(FrameType.WINDOW_UPDATE, 0, 0, payload));
  }

  #read(chunk: Buffer): void {
    const bytes = this.#unread.length > 0 ? Buffer.concat([this.#unread, chunk]) : chunk;
    let at = 0;
    while (at + FRAME_HEADER_BYTES <= bytes.length) {
      const start = at + FRAME_HEADER_BYTES;
      const end = start + bytes.readUIntBE(at, 3);
      if (end > bytes.length) break;
      this.#frame(bytes, at, end);
      at = end;
    }
    this.#unread = bytes.subarray(at);
  }

  /** Handles one frame, including its head, from `at` to `end`. */
  #frame(bytes: Buffer, at: number, end: number): void {
    const type = bytes.readUInt8(at + 3);
    const flags = bytes.readUInt8(at + 4);
    const stream = bytes.readUInt32BE(at + 5);
    const start = at + FRAME_HEADER_BYTES;
    if (type === FrameType.DATA) this.#data(bytes.subarray(start, end), flags, stream);
    else if (type === FrameType.HEADERS) this.#headers(bytes, start, end, flags, stream);
    else if (type === FrameType.SETTINGS) this.#settings(bytes.subarray(start, end), flags);
    else if (type === FrameType.PING) this.#ping(bytes.subarray(start, end), flags);
    else if (type === FrameType.WINDOW_UPDATE) this.#widen(bytes.readUInt32BE(start), stream);
    else if (type === FrameType.RST_STREAM) this.#reset(stream, bytes.readUInt32BE(start));
    else if (type === FrameType.GOAWAY) {
      const text = bytes.toString('latin1', start + 8, end);
      throw new Error(`the server sent GOAWAY with code ${bytes.readUInt32BE(start + 4)} ${text}`.trimEnd());
    } else if (type === FrameType.PUSH_PROMISE || type === FrameType.CONTINUATION) unexpected(type, flags);
  }

  #data(payload: Buffer, flags: number, stream: number): void {
    if (flags & Flag.PADDED) unexpected(FrameType.DATA, flags);
    const call = this.#findCall(stream);
    if (call) call.data = call.data ? Buffer.concat([call.data, payload]) : Buffer.from(payload);
    if (flags & Flag.END_STREAM) this.#answered(stream, []);
    this.#receiveWindowBytes -= payload.length;
    if (this.#receiveWindowBytes > MAX_WINDOW / 2) return;
    this.#grow(MAX_WINDOW - this.#receiveWindowBytes);
    this.#receiveWindowBytes = MAX_WINDOW;
  }

  #headers(bytes: Buffer, start: number, end: number, flags: number, stream: number): void {
    if (flags & (Flag.PADDED | Flag.PRIORITY) || !(flags & Flag.END_HEADERS)) unexpected(FrameType.HEADERS, flags);
    const fields = this.#reader.decode(bytes, start, end);
    if (fields === 'too large') throw new Error(`an answer must have at most ${MAX_FIELDS_BYTES} bytes of headers`);
    if (flags & Flag.END_STREAM) this.#answered(stream, fields);
  }

  #answered(stream: number, trailers: readonly HeaderField[]): void {
    const call = this.#findCall(stream);
    if (!call) return;
    this.#calls.delete(stream);
    const { onAnswer, mayRefuse } = this.#options;
    onAnswer(readAnswer({ data: call.data, trailers, mayRefuse }), call.startedMs, this);
    this.#sendWaiting();
  }

  #reset(stream: number, code: number): void {
    const call = this.#findCall(stream);
    const { onAnswer, deadlineMs } = this.#options;
    if (!call) return;
    if (deadlineMs === undefined) throw new Error(`a call was reset with code ${code}`);
    this.#calls.delete(stream);
    onAnswer('REFUSED', call.startedMs, this);
    this.#sendWaiting();
  }

  /** The call of a stream; undefined if it has expired. */
  #findCall(stream: number): Call | undefined {
    const call = this.#calls.get(stream);
    if (!call && this.#options.deadlineMs === undefined)
      throw new Error(`the server answered on stream ${stream}, without a call in flight`);
    return call;
  }

  #settings(payload: Buffer, flags: number): void {
    if (flags & Flag.ACK) return;
    const settings = new Map<number, number>();
    for (let at = 0; at < payload.length; at += SETTING_BYTES) {
      settings.set(payload.readUInt16BE(at), payload.readUInt32BE(at + 2));
    }
    const { bytes } = this.#options.requests;
    if ((settings.get(Setting.INITIAL_WINDOW_SIZE) ?? DEFAULT_WINDOW) < bytes) {
      throw new Error(`the server's window must allow ${bytes} bytes per call, but is smaller`);
    }
    if ((settings.get(Setting.HEADER_TABLE_SIZE) ?? DEFAULT_TABLE_SIZE) < DEFAULT_TABLE_SIZE) {
      throw new Error(`the server must keep ${DEFAULT_TABLE_SIZE} bytes of headers; its table is smaller`);
    }
    if (this.#maxCalls === 0) this.#maxCalls = Number.POSITIVE_INFINITY;
    this.#maxCalls = settings.get(Setting.MAX_CONCURRENT_STREAMS) ?? this.#maxCalls;
    this.#control(createFrame(FrameType.SETTINGS, Flag.ACK, 0, Buffer.alloc(0)));
    this.#sendWaiting();
  }

  #ping(payload: Buffer, flags: number): void {
    if (!(flags & Flag.ACK)) this.#control(createFrame(FrameType.PING, Flag.ACK, 0, payload));
  }

  /** Checks the connection's window, since a call sends its whole message together. */
  #widen(bytes: number, stream: number): void {
    if (stream !== 0) return;
    this.#sendWindowBytes += bytes;
    this.#sendWaiting();
  }
}

function createFrame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const bytes = Buffer.allocUnsafe(FRAME_HEADER_BYTES + payload.length);
  writeHead(bytes, 0, { type, flags, stream, bytes: payload.length });
  payload.copy(bytes, FRAME_HEADER_BYTES);
  return bytes;
}

function writeHead(
  target: Buffer,
  at: number,
  head: { readonly type: number; readonly flags: number; readonly stream: number; readonly bytes: number },
): void {
  target.writeUIntBE(head.bytes, at, 3);
  target[at + 3] = head.type;
  target[at + 4] = head.flags;
  target.writeUInt32BE(head.stream, at + 5);
}

function unexpected(type: number, flags: number): never {
  throw new Error(`unexpected frame of type ${type} with flags ${flags}`);
}
