import type { Socket } from 'node:net';
import { type PeerAddress, peerAddress } from '../listen/listener.ts';
import { FRAME_HEADER_BYTES } from './frames.ts';
import { writeUint32 } from './octets.ts';

/** Size of the initial buffer, which fits the answers of a busy turn. */
const CHUNK_BYTES = 16_384;
/** Maximum number of free chunks kept for reuse, at most one per open connection; idle connections hold none. */
const MAX_SPARE_CHUNKS = 256;
const spareChunks: Buffer[] = [];
let openOutputs = 0;

export const spareChunkCount = (): number => spareChunks.length;
const NO_BYTES = Buffer.alloc(0);

export interface OutputObserver {
  /** Called after each flush, and when the system has accepted a delayed write. */
  onFlushed(): void;
}

/** The output of one connection: what is written in one turn leaves in one write, after the previous was accepted. */
export class Output {
  readonly #socket: Socket;
  readonly #observer: OutputObserver;
  #isQueued = false;
  /** Size of the buffer that the socket is still sending; 0 without one. */
  #inFlightBytes = 0;
  #isDiscarded = false;
  bytes: Buffer = NO_BYTES;
  length = 0;

  constructor(socket: Socket, observer: OutputObserver) {
    this.#socket = socket;
    this.#observer = observer;
    openOutputs++;
  }

  /** The client; undefined on unix sockets, and after the end. */
  get address(): PeerAddress | undefined {
    return peerAddress(this.#socket);
  }

  /** Octets that the system has not accepted yet. */
  get unsent(): number {
    return this.#socket.writableLength + this.length;
  }

  /** Memory of the buffers, counted once the client has not taken what was written in a turn of the event loop. */
  get heldBytes(): number {
    return this.#inFlightBytes === 0 ? 0 : this.#inFlightBytes + this.bytes.length;
  }

  /** Reserves `length` octets. @returns their position in `bytes` */
  reserve(length: number): number {
    const at = this.length;
    if (at + length > this.bytes.length) this.#grow(at + length);
    this.length = at + length;
    if (!this.#isQueued) {
      this.#isQueued = true;
      flushLater(this);
    }
    return at;
  }

  /** Writes a frame header. @returns the position of the payload in `bytes` */
  reserveFrame(type: number, flags: number, streamId: number, payloadLength: number): number {
    const at = this.reserve(FRAME_HEADER_BYTES + payloadLength);
    const { bytes } = this;
    bytes[at] = payloadLength >> 16;
    bytes[at + 1] = payloadLength >> 8;
    bytes[at + 2] = payloadLength;
    bytes[at + 3] = type;
    bytes[at + 4] = flags;
    writeUint32(bytes, at + 5, streamId);
    return at + FRAME_HEADER_BYTES;
  }

  /** Writes a frame whose payload is a part of `payload`. */
  frame(type: number, flags: number, streamId: number, payload: Uint8Array, from = 0, to = payload.length): void {
    const at = this.reserveFrame(type, flags, streamId, to - from);
    copy(payload, from, to, this.bytes, at);
  }

  /** Writes a frame whose payload is these numbers, four octets each. */
  numbers(type: number, flags: number, streamId: number, ...values: readonly number[]): void {
    let at = this.reserveFrame(type, flags, streamId, values.length * 4);
    for (const value of values) {
      writeUint32(this.bytes, at, value);
      at += 4;
    }
  }

  flush(): void {
    this.#isQueued = false;
    if (this.#inFlightBytes === 0) this.flushNow();
  }

  /** Passes everything to the socket even while a write is pending, for a connection that is about to end. */
  flushNow(): void {
    const { length, bytes } = this;
    if (length === 0) return;
    this.length = 0;
    if (!this.#socket.writable) return this.#free();
    this.#socket.write(bytes.subarray(0, length), this.#onWritten);
    if (this.#socket.writableLength === 0) this.#free();
    else {
      this.#inFlightBytes += bytes.length;
      this.bytes = NO_BYTES;
    }
    this.#observer.onFlushed();
  }

  /** Drops unsent output of a connection that has ended. May be called again. */
  discard(): void {
    this.length = 0;
    this.#free();
    if (this.#isDiscarded) return;
    this.#isDiscarded = true;
    openOutputs--;
    if (spareChunks.length > openOutputs) spareChunks.length = openOutputs;
  }

  readonly #onWritten = (): void => {
    if (this.#inFlightBytes === 0) return; // the system accepted it immediately
    this.#inFlightBytes = 0;
    this.flush();
    this.#observer.onFlushed();
  };

  #free(): void {
    if (this.bytes.length === CHUNK_BYTES && spareChunks.length < MAX_SPARE_CHUNKS) spareChunks.push(this.bytes);
    this.bytes = NO_BYTES;
  }

  #grow(needed: number): void {
    if (needed <= CHUNK_BYTES) {
      this.bytes = spareChunks.pop() ?? Buffer.allocUnsafeSlow(CHUNK_BYTES);
      return;
    }
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.bytes.length * 2));
    this.bytes.copy(larger, 0, 0, this.length);
    this.bytes = larger;
  }
}

/** Connections with output to flush at the end of the turn. */
let waiting: Output[] = [];

function flushLater(output: Output): void {
  if (waiting.push(output) === 1) setImmediate(flushAll); // runs after all input of this turn is handled
}

function flushAll(): void {
  const outputs = waiting;
  waiting = [];
  for (const output of outputs) output.flush();
}

/** Size up to which a loop is faster than the native copy. */
const SMALL_COPY_BYTES = 48;

function copy(source: Uint8Array, from: number, to: number, target: Uint8Array, at: number): void {
  if (to - from > SMALL_COPY_BYTES) {
    target.set(from === 0 && to === source.length ? source : source.subarray(from, to), at);
    return;
  }
  for (let next = from; next < to; next++) target[at++] = source[next] as number; // both are long enough
}
