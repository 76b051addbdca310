import { createServer } from 'node:net';
import { uint31 } from '../../../src/h2/http2/frame-reader.ts';
import { Flag, FRAME_HEADER_BYTES, FrameType, MAX_WINDOW, PREFACE } from '../../../src/h2/http2/frames.ts';
import { encodeFields } from '../../../src/h2/http2/hpack/encode.ts';
import { frame, settings } from '../../../test/helpers/h2-client.ts';

/** A message with overall_code OK, framed for gRPC. */
const MESSAGE = Buffer.of(0, 0, 0, 0, 2, 0x08, 1);
const NO_BYTES = Buffer.alloc(0);
const head = encodeFields([
  [':status', '200'],
  ['content-type', 'application/grpc'],
]);
const trailers = encodeFields([['grpc-status', '0']]);
const windowUpdate = Buffer.alloc(4);
windowUpdate.writeUInt32BE(MAX_WINDOW - 65_535);
const greeting = Buffer.concat([settings(), frame(FrameType.WINDOW_UPDATE, 0, 0, windowUpdate)]);

/**
 * Answers every call with the same bytes, without a decision. Speaks only as much HTTP/2 as the generator's calls need.
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
    const answers: Buffer[] = hasGreeted ? [] : [greeting];
    let at = hasGreeted ? 0 : PREFACE.length;
    hasGreeted = true;
    for (let to = endOfFrame(bytes, at); to <= bytes.length; at = to, to = endOfFrame(bytes, at))
      if (endsCall(bytes, at)) answers.push(...answerTo(uint31(bytes, at + 5)));
    rest = bytes.subarray(at);
    if (answers.length > 0) socket.write(answers.length === 1 ? (answers[0] ?? NO_BYTES) : Buffer.concat(answers));
  });
}).listen(Number(process.env.CANNED_PORT), '127.0.0.1');

/** The end of the frame at `at`; beyond the end of the bytes if it is incomplete. */
const endOfFrame = (bytes: Buffer, at: number): number =>
  at + FRAME_HEADER_BYTES + (at + FRAME_HEADER_BYTES <= bytes.length ? bytes.readUIntBE(at, 3) : 0);

const endsCall = (bytes: Buffer, at: number): boolean =>
  bytes[at + 3] === FrameType.DATA && ((bytes[at + 4] ?? 0) & Flag.END_STREAM) !== 0;

const answerTo = (stream: number): readonly Buffer[] => [
  frame(FrameType.HEADERS, Flag.END_HEADERS, stream, head),
  frame(FrameType.DATA, 0, stream, MESSAGE),
  frame(FrameType.HEADERS, Flag.END_HEADERS | Flag.END_STREAM, stream, trailers),
];
