import { Flag, FRAME_HEADER_BYTES, FrameType } from '../../src/h2/http2/frames.ts';
import { encodeFields } from '../../src/h2/http2/hpack/encode.ts';
import { callFields, data, type Fields, frame, framed } from '../../test/helpers/h2-client.ts';
import { encodeRequestHeaders } from '../bench/generator/request-headers.ts';
import { range } from '../tables/figures.ts';
import type { Http2Client } from './http2-client.ts';

/** The common properties of the calls in a batch. */
export interface CallShape {
  /** The message, framed for gRPC. */
  readonly body: Buffer;
  /** Changes to the fields of an ordinary call; '' leaves one out. */
  readonly fields?: Fields;
  /** Whether the request is complete. */
  readonly isEnd?: boolean;
  /** Frames to send after each call, with its stream id. */
  readonly after?: readonly Buffer[];
  /** Offsets in the body of eight digits, which are a different number in each call. */
  readonly digitsAt?: readonly number[];
}

const DIGITS = 8;
const ZERO = 48;
const STREAM_ID_AT = 5;
const MAX_DATA_BYTES = 16_384;
/** Maximum DATA in a batch, so that it fits into the window of a new connection. */
const MAX_FLOW_BYTES = 32_768;

/** Makes calls cheaply by writing the bytes of many once and changing only stream ids and digits. */
export class CallBatch {
  /** The part of the connection's window that a batch uses. */
  readonly flowBytes: number;
  readonly count: number;
  readonly #bytes: Buffer;
  readonly #stride: number;
  readonly #idsAt: readonly number[];
  /** The offset of each digit, one number after the other. */
  readonly #digitsAt: readonly number[];
  #number = 0;

  /** @param count  calls in a batch; reduced if they do not fit into the window */
  constructor({ body, fields = {}, isEnd = true, after = [], digitsAt = [] }: CallShape, count: number) {
    const head = frame(FrameType.HEADERS, Flag.END_HEADERS, 0, encodeFields(callFields(fields)));
    const frames = [head, ...dataFrames(body, isEnd), ...after];
    const one = Buffer.concat(frames);
    this.count = Math.max(1, Math.min(count, Math.floor(MAX_FLOW_BYTES / Math.max(1, body.length))));
    this.flowBytes = this.count * body.length;
    this.#bytes = Buffer.alloc(one.length * this.count, one);
    this.#stride = one.length;
    this.#idsAt = frames.map((_, at) => totalLength(frames.slice(0, at)) + STREAM_ID_AT);
    const digitOffset = (at: number) => head.length + at + FRAME_HEADER_BYTES * (Math.floor(at / MAX_DATA_BYTES) + 1);
    this.#digitsAt = digitsAt.flatMap((at) => range(DIGITS).map((digit) => digitOffset(at + digit)));
  }

  /** Sets the next number. */
  startAt(number: number): void {
    this.#number = number;
  }

  /** The bytes of the next batch, valid until the next call of this method. */
  next(client: Http2Client): Buffer {
    const first = client.takeStreams(this.count);
    for (let call = 0; call < this.count; call++) {
      const start = call * this.#stride;
      for (const at of this.#idsAt) this.#bytes.writeUInt32BE(first + call * 2, start + at);
      this.#writeDigits(start);
    }
    return this.#bytes;
  }

  #writeDigits(start: number): void {
    for (let place = 0; place < this.#digitsAt.length; place += DIGITS) {
      let rest = this.#number++;
      for (let digit = DIGITS - 1; digit >= 0; digit--) {
        this.#bytes[start + (this.#digitsAt[place + digit] ?? 0)] = ZERO + (rest % 10);
        rest = Math.floor(rest / 10);
      }
    }
  }

  /** Sends one batch. @returns false if the connection has ended */
  send(client: Http2Client): Promise<boolean> {
    return client.send(this.next(client), this.flowBytes);
  }
}

export const digits = (number: number): string => String(number % 10 ** DIGITS).padStart(DIGITS, '0');

/** Placeholder of eight digits that a batch can replace. */
export const DIGITS_PLACE = '0'.repeat(DIGITS);

/** The offsets of the placeholders. */
export function placesIn(bytes: Buffer): readonly number[] {
  const places: number[] = [];
  for (let at = bytes.indexOf(DIGITS_PLACE); at >= 0; at = bytes.indexOf(DIGITS_PLACE, at + DIGITS)) places.push(at);
  return places;
}

const dataFrames = (body: Buffer, isEnd: boolean): readonly Buffer[] =>
  range(Math.ceil(body.length / MAX_DATA_BYTES)).map((at) => {
    const end = (at + 1) * MAX_DATA_BYTES;
    return data(0, body.subarray(at * MAX_DATA_BYTES, end), isEnd && end >= body.length);
  });

const totalLength = (buffers: readonly Buffer[]): number => buffers.reduce((sum, { length }) => sum + length, 0);

/** Calls as ordinary clients send them, with fields in the server's dynamic table at one octet each. */
export class OrdinaryCalls {
  readonly #block = encodeRequestHeaders(callFields().map(([name, value]) => ({ name, value })));
  readonly #body: Buffer;
  readonly bytesEach: number;

  constructor(message: Buffer) {
    this.#body = framed(message);
    this.bytesEach = FRAME_HEADER_BYTES * 2 + this.#block.later.length + this.#body.length;
  }

  async send(client: Http2Client, count: number): Promise<boolean> {
    const first = client.takeStreams(count);
    const frames: Buffer[] = [];
    for (let id = first; id < first + count * 2; id += 2) {
      const block = id === 1 ? this.#block.first : this.#block.later;
      frames.push(frame(FrameType.HEADERS, Flag.END_HEADERS, id, block), data(id, this.#body, true));
    }
    return client.send(Buffer.concat(frames), count * this.#body.length);
  }
}
