import { connect as connectHttp2 } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { createRequests } from '../generator/requests.ts';
import { QUESTION } from './site.ts';

const RETRY_MS = 1;

/**
 * Resolves when the service on this port has answered a call.
 *
 * @param isRunning  whether the service still runs
 * @throws  the service ended before an answer
 */
export async function firstAnswer(port: number, isRunning: () => boolean): Promise<void> {
  for (;;) {
    if (!isRunning()) throw new Error(`the service ended before it answered on port ${port}`);
    const socket = await connected(port);
    if (socket && (await answers(socket))) return;
    await sleep(RETRY_MS);
  }
}

/** Undefined while nothing listens. */
const connected = (port: number): Promise<Socket | undefined> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(socket));
    socket.once('error', () => resolve(undefined));
  });

/** Sends one call. @returns whether its gRPC status is 0 */
async function answers(socket: Socket): Promise<boolean> {
  const session = connectHttp2('http://127.0.0.1', { createConnection: () => socket });
  try {
    return await new Promise<boolean>((resolve) => {
      session.once('error', () => resolve(false));
      const call = session.request({
        ':method': 'POST',
        ':path': '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit',
        'content-type': 'application/grpc',
        te: 'trailers',
      });
      call.on('trailers', (trailers) => resolve(trailers['grpc-status'] === '0'));
      call.once('error', () => resolve(false));
      call.once('close', () => resolve(false)); // no effect after the trailers
      call.resume().end(message);
    });
  } finally {
    session.destroy();
  }
}

const requests = createRequests(QUESTION);
const message = Buffer.alloc(requests.bytes);
requests.writeNext(message, 0);
