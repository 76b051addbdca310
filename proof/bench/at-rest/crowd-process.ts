import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Flag, FRAME_HEADER_BYTES, FrameType, PREFACE } from '../../../src/h2/http2/frames.ts';
import { frame, settings } from '../../../test/helpers/h2-client.ts';
import { serveParent } from '../../processes/child.ts';
import { headersTo } from '../generator/drive.ts';
import { createRequests } from '../generator/requests.ts';
import type { CrowdOrder, CrowdQuestion } from './crowd.ts';
import { QUESTION } from './site.ts';

const STREAM = 1;

const sockets = new Set<Socket>();

serveParent<CrowdQuestion, number>(async (question) => {
  if (question.kind === 'open') return open(question.order);
  for (const socket of sockets) socket.resetAndDestroy();
  sockets.clear();
  return 0;
});

/** @returns  the time until the last connection was open and its call answered */
async function open({ port, connections, overMs, calls }: CrowdOrder): Promise<number> {
  const greeting = calls ? Buffer.concat([PREFACE, settings(), callTo(port)]) : undefined;
  const startMs = performance.now();
  const opened: Promise<void>[] = [];
  while (opened.length < connections) {
    const due = Math.ceil(((performance.now() - startMs) / overMs) * connections);
    while (opened.length < Math.min(due, connections)) opened.push(openOne(port, greeting));
    await sleep(1);
  }
  await Promise.all(opened);
  return performance.now() - startMs;
}

/** Resolves when the connection is open and its call answered. */
async function openOne(port: number, greeting: Buffer | undefined): Promise<void> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  sockets.add(socket);
  socket.on('error', () => {}); // 'close' follows
  const lost = new Promise<never>((_, reject) => {
    socket.once('close', () => reject(new Error('a connection was closed by the service')));
  });
  lost.catch(() => {}); // may also fail after it was opened
  await Promise.race([once(socket, 'connect'), lost]);
  if (greeting) await Promise.race([answered(socket, greeting), lost]);
}

function answered(socket: Socket, greeting: Buffer): Promise<void> {
  let received: Buffer = Buffer.alloc(0);
  return new Promise((resolve) => {
    const read = (chunk: Buffer): void => {
      received = Buffer.concat([received, chunk]);
      if (!hasAnswer(received)) return;
      socket.off('data', read);
      socket.resume(); // drops all later bytes
      resolve();
    };
    socket.on('data', read);
    socket.write(greeting);
  });
}

/** Whether these frames contain the trailers of the call. */
function hasAnswer(bytes: Buffer): boolean {
  for (let at = 0; at + FRAME_HEADER_BYTES <= bytes.length; at += FRAME_HEADER_BYTES + bytes.readUIntBE(at, 3)) {
    const isEnd = (bytes.readUInt8(at + 4) & Flag.END_STREAM) !== 0;
    if (isEnd && bytes.readUInt8(at + 3) === FrameType.HEADERS && bytes.readUInt32BE(at + 5) === STREAM) return true;
  }
  return false;
}

function callTo(port: number): Buffer {
  const requests = createRequests(QUESTION);
  const message = Buffer.alloc(requests.bytes);
  requests.writeNext(message, 0);
  return Buffer.concat([
    frame(FrameType.HEADERS, Flag.END_HEADERS, STREAM, headersTo(port).first),
    frame(FrameType.DATA, Flag.END_STREAM, STREAM, message),
  ]);
}
