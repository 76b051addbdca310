import { connect, type Socket } from 'node:net';
import { shouldRateLimit } from '../../src/edge/rls/proto.ts';
import type { WireRequest } from '../../src/edge/wire/wire.ts';
import { type ErrorCode, errorNames } from '../../src/h2/http2/errors.ts';
import { Flag, FRAME_HEADER_BYTES, FrameType, PREFACE } from '../../src/h2/http2/frames.ts';
import { HpackDecoder } from '../../src/h2/http2/hpack/decoder.ts';
import { encodeFields } from '../../src/h2/http2/hpack/encode.ts';

/** Longer than any answer takes on a busy machine, and shorter than the time limit of a test, which names no reason. */
const WAIT_MS = 100_000;
/** The last stream id and the error code of a GOAWAY. */
const GOAWAY_HEADER_BYTES = 8;

export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly streamId: number;
  readonly payload: Buffer;
}

/** The answer on one stream. */
export interface Reply {
  readonly fields: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** Why the stream was reset. */
  readonly reset?: keyof typeof ErrorCode;
}

/** A client of HTTP/2 that sends arbitrary octets, valid or not. */
export interface RawClient {
  readonly socket: Socket;
  /** All frames received so far. */
  readonly frames: readonly Frame[];
  send(...bytes: readonly Uint8Array[]): void;
  /** Resolves with the first matching frame, already received or not; rejects when none can arrive any more. */
  find(matches: (frame: Frame) => boolean, what?: string): Promise<Frame>;
  /** The answer on a stream, once the stream has ended. */
  reply(streamId: number): Promise<Reply>;
  /** Resolves with the contents of the server's GOAWAY once the server has closed the connection. */
  ended(): Promise<{ readonly code: keyof typeof ErrorCode | 'no GOAWAY'; readonly debug: string }>;
  /** Resolves when the server has read all that was sent so far. */
  settled(): Promise<void>;
  close(): void;
}

/** Opens a connection; by default with the preface and an empty SETTINGS. */
export async function openRaw(
  port: number,
  { greeting = [PREFACE, settings()] as readonly Uint8Array[], socket = connect(port, '127.0.0.1') } = {},
): Promise<RawClient> {
  const frames: Frame[] = [];
  const listeners = new Set<() => void>();
  let rest = Buffer.alloc(0);
  let isClosed = false;
  const notify = (): void => {
    for (const listener of [...listeners]) listener();
  };
  socket.setNoDelay(true);
  socket.on('data', (chunk: Buffer) => {
    rest = Buffer.concat([rest, chunk]);
    const { read, used } = parseFrames(rest);
    rest = Buffer.from(rest.subarray(used)); // without the copy, the whole chunk stays in memory
    frames.push(...read);
    notify();
  });
  socket.on('error', () => {}); // 'close' comes next
  socket.once('close', () => {
    isClosed = true;
    notify();
  });
  const until = <T>(poll: () => T | undefined, what: string): Promise<T> =>
    new Promise((resolve, reject) => {
      const done = (settle: () => void): void => {
        clearTimeout(timer);
        listeners.delete(check);
        settle();
      };
      const came = () => `${what} did not come; what came: ${frames.map(describe).join(', ')}`;
      const check = (): void => {
        const found = poll();
        if (found !== undefined) done(() => resolve(found));
        else if (isClosed) done(() => reject(new Error(`the connection has ended: ${came()}`)));
      };
      const timer = setTimeout(() => done(() => reject(new Error(came()))), WAIT_MS);
      listeners.add(check);
      check();
    });
  const send = (...bytes: readonly Uint8Array[]): void => void socket.write(Buffer.concat(bytes));
  let pings = 0;
  send(...greeting);
  const find: RawClient['find'] = (matches, what = 'the frame') => until(() => frames.find(matches), what);
  return {
    socket,
    frames,
    send,
    find,
    async reply(streamId) {
      await find((frame) => frame.streamId === streamId && isLast(frame), `the end of stream ${streamId}`);
      return replyOf(frames.filter((frame) => frame.streamId === streamId));
    },
    async ended() {
      await until(() => (isClosed ? true : undefined), 'the end of the connection');
      const goaway = frames.findLast(({ type }) => type === FrameType.GOAWAY);
      if (!goaway) return { code: 'no GOAWAY', debug: '' };
      return {
        code: errorNames[goaway.payload.readUInt32BE(4) as keyof typeof errorNames], // one of RFC 9113, or undefined
        debug: goaway.payload.toString('latin1', GOAWAY_HEADER_BYTES),
      };
    },
    async settled() {
      const opaque = Buffer.alloc(8);
      opaque.writeUInt32BE(++pings);
      send(frame(FrameType.PING, 0, 0, opaque));
      await find(({ type, flags, payload }) => type === FrameType.PING && flags === Flag.ACK && payload.equals(opaque));
    },
    close: () => socket.destroy(),
  };
}

export function frame(type: number, flags: number, streamId: number, payload: Uint8Array = Buffer.alloc(0)): Buffer {
  const header = Buffer.alloc(FRAME_HEADER_BYTES);
  header.writeUIntBE(payload.length, 0, 3);
  header[3] = type;
  header[4] = flags;
  header.writeUInt32BE(streamId, 5);
  return Buffer.concat([header, payload]);
}

export function settings(...pairs: readonly (readonly [id: number, value: number])[]): Buffer {
  const payload = Buffer.alloc(pairs.length * 6);
  for (const [at, [id, value]] of pairs.entries()) {
    payload.writeUInt16BE(id, at * 6);
    payload.writeUInt32BE(value, at * 6 + 2);
  }
  return frame(FrameType.SETTINGS, 0, 0, payload);
}

export const uint32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
};

export const windowUpdate = (streamId: number, increment: number): Buffer =>
  frame(FrameType.WINDOW_UPDATE, 0, streamId, uint32(increment));

export const rstStream = (streamId: number, code: number): Buffer =>
  frame(FrameType.RST_STREAM, 0, streamId, uint32(code));

export const goaway = (code: number): Buffer => frame(FrameType.GOAWAY, 0, 0, Buffer.concat([uint32(0), uint32(code)]));

export const data = (streamId: number, bytes: Uint8Array, isEnd = false): Buffer =>
  frame(FrameType.DATA, isEnd ? Flag.END_STREAM : 0, streamId, bytes);

export type Fields = Readonly<Record<string, string>>;

/** The header fields of a call; a field that is changed to '' is left out. */
export const callFields = (changes: Fields = {}): readonly (readonly [string, string])[] =>
  Object.entries({
    ':method': 'POST',
    ':scheme': 'http',
    ':path': shouldRateLimit.path,
    ':authority': 'localhost',
    'content-type': 'application/grpc',
    te: 'trailers',
    ...changes,
  }).filter(([, value]) => value !== '');

/** HEADERS of a call, by default without END_STREAM. */
export const callHead = (streamId: number, changes: Fields = {}, flags = 0): Buffer =>
  frame(FrameType.HEADERS, Flag.END_HEADERS | flags, streamId, encodeFields(callFields(changes)));

/** A message with gRPC's prefix of five octets. */
export const framed = (message: Uint8Array, compressed = 0): Buffer =>
  Buffer.concat([Buffer.of(compressed), uint32(message.length), message]);

export const question: WireRequest = {
  domain: 'demo',
  descriptors: [
    { entries: [{ key: 'user', value: 'alice' }], limit: null, hits_addend: null, is_negative_hits: false },
  ],
  hits_addend: 1,
};

/** `question`, serialized. */
export const message = shouldRateLimit.requestSerialize(question);

/** A complete call. */
export const call = (streamId: number, changes: Fields = {}): Buffer =>
  Buffer.concat([callHead(streamId, changes), data(streamId, framed(message), true)]);

/** The complete frames, and the number of octets that they take. */
export function parseFrames(bytes: Buffer): { readonly read: readonly Frame[]; readonly used: number } {
  const read: Frame[] = [];
  let at = 0;
  while (bytes.length - at >= FRAME_HEADER_BYTES) {
    const end = at + FRAME_HEADER_BYTES + bytes.readUIntBE(at, 3);
    if (end > bytes.length) break;
    const [type = 0, flags = 0] = bytes.subarray(at + 3, at + 5);
    const streamId = bytes.readUInt32BE(at + 5) & 0x7fff_ffff;
    read.push({ type, flags, streamId, payload: bytes.subarray(at + FRAME_HEADER_BYTES, end) });
    at = end;
  }
  return { read, used: at };
}

const isLast = ({ type, flags }: Frame): boolean =>
  type === FrameType.RST_STREAM ||
  ((type === FrameType.HEADERS || type === FrameType.DATA) && (flags & Flag.END_STREAM) !== 0);

/** Our server's header blocks do not use the dynamic table, so each can be decoded separately. */
function replyOf(frames: readonly Frame[]): Reply {
  const fields: Record<string, string> = {};
  for (const { payload } of frames.filter(({ type }) => type === FrameType.HEADERS)) {
    const decoded = new HpackDecoder(Number.MAX_SAFE_INTEGER).decode(payload, 0, payload.length);
    for (const { name, value } of decoded === 'too large' ? [] : decoded) fields[name] = value;
  }
  const body = Buffer.concat(frames.filter(({ type }) => type === FrameType.DATA).map(({ payload }) => payload));
  const [first] = frames.filter(isLast);
  if (first?.type !== FrameType.RST_STREAM) return { fields, body };
  return { fields, body, reset: errorNames[first.payload.readUInt32BE() as keyof typeof errorNames] }; // one of RFC 9113
}

const typeNames = Object.entries(FrameType);

const describe = ({ type, flags, streamId, payload }: Frame): string =>
  `${typeNames.find(([, number]) => number === type)?.[0] ?? type} on ${streamId} (flags ${flags}): ${payload.toString('hex', 0, 16)}`;
