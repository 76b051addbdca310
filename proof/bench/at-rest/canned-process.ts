import { connect, createServer } from 'node:net';
import { uint31 } from '../../../src/h2/http2/frame-reader.ts';
import { Flag, FRAME_HEADER_BYTES, FrameType, MAX_WINDOW, PREFACE } from '../../../src/h2/http2/frames.ts';
import { encodeFields } from '../../../src/h2/http2/hpack/encode.ts';
import { frame, settings } from '../../../test/helpers/h2-client.ts';

/** Messages with an overall_code, framed for gRPC. */
const OK = Buffer.of(0, 0, 0, 0, 2, 0x08, 1);
const OVER_LIMIT = Buffer.of(0, 0, 0, 0, 2, 0x08, 2);
const PING = '*1\r\n$4\r\nPING\r\n';
const INCRBY = '*3\r\n$6\r\nINCRBY\r\n$3\r\nkey\r\n$1\r\n1\r\n';
/** Ends the reply to each of them. */
const NEWLINE = 10;
const NO_BYTES = Buffer.alloc(0);
const head = encodeFields([
  [':status', '200'],
  ['content-type', 'application/grpc'],
]);
const trailers = encodeFields([['grpc-status', '0']]);
const windowUpdate = Buffer.alloc(4);
windowUpdate.writeUInt32BE(MAX_WINDOW - 65_535);
const greeting = Buffer.concat([settings(), frame(FrameType.WINDOW_UPDATE, 0, 0, windowUpdate)]);

const { CANNED_PORT, CANNED_REDIS_PORT, CANNED_COUNTS } = process.env;
const redis =
  CANNED_REDIS_PORT === undefined
    ? undefined
    : connect({ port: Number(CANNED_REDIS_PORT), host: '127.0.0.1', noDelay: true });

/** The answers to one read of a socket, which are written after this number of replies. */
interface Waiting {
  replies: number;
  readonly write: () => void;
}
const waiting: Waiting[] = [];
redis?.on('data', (replies: Buffer) => {
  for (const byte of replies) {
    const [first] = waiting;
    if (byte !== NEWLINE || !first || --first.replies > 0) continue;
    waiting.shift();
    first.write();
  }
});

/** Commands to be written at the end of this turn of the event loop. */
let due = '';
function sendLater(commands: string): void {
  if (due === '')
    setImmediate(() => {
      redis?.write(due, 'latin1');
      due = '';
    });
  due += commands;
}

/**
 * Answers every call with the same bytes, without a decision. If there is a Redis, it first sends a PING for each read
 * of a socket, or with CANNED_COUNTS an INCRBY for each call, those of a turn together. Speaks only as much HTTP/2 as
 * the generator's calls need.
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
    waiting.push({ replies: CANNED_COUNTS ? answers.length : 1, write });
    if (CANNED_COUNTS) sendLater(INCRBY.repeat(answers.length));
    else redis.write(PING);
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
