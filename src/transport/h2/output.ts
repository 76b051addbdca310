import type { Socket } from 'node:net';
import { FRAME_HEADER_BYTES } from './frames.ts';

/** Room for the answers of a busy turn; what needs more gets more, once. */
const CHUNK_BYTES = 16_384;

/**
 * What goes out on one connection: all that is written in one turn of the event loop leaves in one write. A caller takes room with
 * `reserve` and writes into `bytes` at once.
 */
export class Output {
  readonly #socket: Socket;
  #isQueued = false;
  bytes = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  length = 0;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Octets that the system has not taken yet. */
  get unsent(): number {
    return this.#socket.writableLength;
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

  /** A frame whose payload is there already: a part of `payload`. */
  frame(type: number, flags: number, streamId: number, payload: Uint8Array, from = 0, to = payload.length): void {
    const at = this.reserveFrame(type, flags, streamId, to - from);
    copy(payload, from, to, this.bytes, at);
  }

  /** A frame whose payload are these numbers, four octets each. */
  numbers(type: number, flags: number, streamId: number, ...values: readonly number[]): void {
    let at = this.reserveFrame(type, flags, streamId, values.length * 4);
    for (const value of values) {
      writeUint32(this.bytes, at, value);
      at += 4;
    }
  }

  flush(): void {
    this.#isQueued = false;
    const { length } = this;
    if (length === 0 || !this.#socket.writable) return;
    this.length = 0;
    this.#socket.write(this.bytes.subarray(0, length));
    const isFree = this.#socket.writableLength === 0 && this.bytes.length === CHUNK_BYTES; // else the socket still reads from it
    if (!isFree) this.bytes = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  }

  #grow(needed: number): void {
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.bytes.length * 2));
    this.bytes.copy(larger, 0, 0, this.length);
    this.bytes = larger;
  }
}

/** Those that have something to send at the end of the turn. */
let waiting: Output[] = [];

function flushLater(output: Output): void {
  if (waiting.push(output) === 1) setImmediate(flushAll); // comes after all that this turn has read
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
