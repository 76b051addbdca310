import { connect, createServer } from 'node:net';
import { uint31 } from '../../../src/h2/http2/frame-reader.ts';
import { Flag, FRAME_HEADER_BYTES, FrameType, MAX_WINDOW, PREFACE } from '../../../src/h2/http2/frames.ts';
import { encodeFields } from '../../../src/h2/http2/hpack/encode.ts';
import { frame, settings } from '../../../test/helpers/h2-client.ts';

/** Messages with an overall_code, framed for gRPC. */
const OK = Buffer.of(0, 0, 0, 0, 2, 0x08, 1);
const OVER_LIMIT = Buffer.of(0, 0, 0, 0, 2, 0x08, 2);
const PING = Buffer.from('*1\r\n$4\r\nPING\r\n');
/** Begins the reply to a PING. */
const PLUS = 43;
const NO_BYTES = Buffer.alloc(0);
const head = encodeFields([
  [':status', '200'],
  ['content-type', 'application/grpc'],
]);
const trailers = encodeFields([['grpc-status', '0']]);
const windowUpdate = Buffer.alloc(4);
windowUpdate.writeUInt32BE(MAX_WINDOW - 65_535);
const greeting = Buffer.concat([settings(), frame(FrameType.WINDOW_UPDATE, 0, 0, windowUpdate)]);

/** Resolves after a round trip to Redis, if there is one. */
const asked: (() => void)[] = [];
const { CANNED_PORT, CANNED_REDIS_PORT } = process.env;
const redis =
  CANNED_REDIS_PORT === undefined
    ? undefined
    : connect({ port: Number(CANNED_REDIS_PORT), host: '127.0.0.1', noDelay: true });
redis?.on('data', (replies: Buffer) => {
  for (const byte of replies) if (byte === PLUS) asked.shift()?.();
});

/**
 * Answers every call with the same bytes, without a decision, if there is a Redis after a PING. Speaks only as much
 * HTTP/2 as the generator's calls need.
 */
createServer({ noDelay: true }, (socket) => {
  let rest: Buffer = NO_BYTES;
  let hasGreeted = false;
  socket.on('error', () => {}); // 'close' follows
  socket.on('data', (chunk: Buffer) => {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    if (bytes.length < PREFACE.length && !hasGreeted) {
      rest = bytes;
      return;
    }
    if (!hasGreeted) socket.write(greeting);
    const answers: Buffer[] = [];
    let at = hasGreeted ? 0 : PREFACE.length;
    hasGreeted = true;
    for (let to = endOfFrame(bytes, at); to <= bytes.length; at = to, to = endOfFrame(bytes, at))
      if (endsCall(bytes, at)) answers.push(answerTo(bytes, at, to));
    rest = bytes.subarray(at);
    const [first] = answers;
    if (!first) return;
    const write = (): void => void socket.write(answers.length === 1 ? first : Buffer.concat(answers));
    if (!redis) return write();
    asked.push(write);
    redis.write(PING);
  });
}).listen(Number(CANNED_PORT), '127.0.0.1');

/** The end of the frame at `at`; beyond the end of the bytes if it is incomplete. */
const endOfFrame = (bytes: Buffer, at: number): number =>
  at + FRAME_HEADER_BYTES + (at + FRAME_HEADER_BYTES <= bytes.length ? bytes.readUIntBE(at, 3) : 0);

const endsCall = (bytes: Buffer, at: number): boolean =>
  bytes[at + 3] === FrameType.DATA && ((bytes[at + 4] ?? 0) & Flag.END_STREAM) !== 0;

const answerTo = (bytes: Buffer, at: number, to: number): Buffer => {
  const stream = uint31(bytes, at + 5);
  const isProbe = bytes.subarray(at, to).includes('probe');
  return Buffer.concat([
    frame(FrameType.HEADERS, Flag.END_HEADERS, stream, head),
    frame(FrameType.DATA, 0, stream, isProbe ? OVER_LIMIT : OK),
    frame(FrameType.HEADERS, Flag.END_HEADERS | Flag.END_STREAM, stream, trailers),
  ]);
};
