import type { Socket } from 'node:net';
import { FRAME_HEADER_BYTES } from './frames.ts';

/** Room for the answers of a busy turn; what needs more gets more. */
const CHUNK_BYTES = 16_384;
/** Chunks that no connection uses, kept for the next: an idle connection has none. */
const MAX_SPARE_CHUNKS = 256;
const spareChunks: Buffer[] = [];
const NO_BYTES = Buffer.alloc(0);

/**
 * The bytes that leave on one connection: everything that is written in one turn of the event loop leaves in one write. While the system does
 * not take what was written before, nothing more is handed to the socket.
 */
export class Output {
  readonly #socket: Socket;
  readonly #onFlushed: () => void;
  #isQueued = false;
  /** Size of the buffer that the socket still reads from; 0: none. */
  #inFlightBytes = 0;
  bytes: Buffer = NO_BYTES;
  length = 0;

  /** @param onFlushed  called after each flush, and when the system has taken what it had not taken at once */
  constructor(socket: Socket, onFlushed: () => void) {
    this.#socket = socket;
    this.#onFlushed = onFlushed;
  }

  /** Octets that the system has not taken yet. */
  get unsent(): number {
    return this.#socket.writableLength + this.length;
  }

  /** Bytes of memory in buffers. */
  get heldBytes(): number {
    return this.#inFlightBytes + this.bytes.length;
  }

  /** @returns where in `bytes` there are so many octets to write */
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

  /** @returns where its payload goes */
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

  /** A frame whose payload exists already: a part of `payload`. */
  frame(type: number, flags: number, streamId: number, payload: Uint8Array, from = 0, to = payload.length): void {
    const at = this.reserveFrame(type, flags, streamId, to - from);
    copy(payload, from, to, this.bytes, at);
  }

  /** A frame whose payload is these numbers, four octets each. */
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

  /** Hands everything to the socket, even what it has to keep: before its end. */
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
    this.#onFlushed();
  }

  /** The connection has ended: what was not sent never will be. */
  discard(): void {
    this.length = 0;
    this.#free();
  }

  readonly #onWritten = (): void => {
    if (this.#inFlightBytes === 0) return; // the system took it at once
    this.#inFlightBytes = 0;
    this.flush();
    this.#onFlushed();
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

/** Those that have something to send at the end of the turn. */
let waiting: Output[] = [];

function flushLater(output: Output): void {
  if (waiting.push(output) === 1) setImmediate(flushAll); // runs after everything that this turn has read
}

function flushAll(): void {
  const outputs = waiting;
  waiting = [];
  for (const output of outputs) output.flush();
}

function writeUint32(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value >>> 24;
  bytes[at + 1] = value >>> 16;
  bytes[at + 2] = value >>> 8;
  bytes[at + 3] = value;
}

/** A loop beats the call of a native function where there is little to copy. */
const FEW_BYTES = 48;

function copy(source: Uint8Array, from: number, to: number, target: Uint8Array, at: number): void {
  if (to - from > FEW_BYTES) {
    target.set(from === 0 && to === source.length ? source : source.subarray(from, to), at);
    return;
  }
  for (let next = from; next < to; next++) target[at++] = source[next] as number; // both are large enough
}
