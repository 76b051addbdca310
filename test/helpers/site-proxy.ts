import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, credentials, type handleUnaryCall, Server, ServerCredentials } from '@grpc/grpc-js';
import { serverIdentity } from '../../src/h2/identity/grpc-tls.ts';
import { type BorrowRequest, type BorrowResponse, borrowMethod } from '../../src/parts/sites/messages.ts';
import type { Authority } from './certificates.ts';

/** A proxy between two sites, which forwards their exchange message by message. */
export interface SiteProxy {
  readonly port: number;
  /** The number of messages that were not forwarded. */
  readonly dropped: number;
  readonly passed: number;
  /** Ends all connections, and accepts none for this long. */
  cut(forMs: number): void;
  close(): Promise<void>;
}

export interface SiteProxyOptions {
  /** The authority of both sites' certificates. */
  readonly authority: Authority;
  /** The delay of each message. */
  readonly delayMs: number;
  /** The fraction of messages, requests and answers, that are dropped. */
  readonly dropped: number;
  readonly random: () => number;
}

/** @param to  the SITE_PORT of the site behind the proxy */
export async function startSiteProxy(
  to: number,
  port: number,
  { authority, delayMs, dropped: share, random }: SiteProxyOptions,
): Promise<SiteProxy> {
  const own = authority.issue('127.0.0.1');
  const [ca, cert, key] = [authority.cert, own.cert, own.key].map((text) => Buffer.from(text)) as [
    Buffer,
    Buffer,
    Buffer,
  ]; // one for each text
  const { verify, channel } = serverIdentity(`127.0.0.1:${to}`);
  const upstream = new Client(`127.0.0.1:${to}`, credentials.createSsl(ca, key, cert, verify), channel);
  const counts = { dropped: 0, passed: 0 };
  let cutUntilMs = 0;
  const isLost = (): boolean => {
    const isDropped = random() < share || performance.now() < cutUntilMs;
    counts[isDropped ? 'dropped' : 'passed']++;
    return isDropped;
  };
  const { path, requestSerialize, responseDeserialize } = borrowMethod;
  const forward = (request: BorrowRequest): Promise<BorrowResponse | undefined> =>
    new Promise((resolve) => {
      const deadline = Date.now() + 5_000;
      upstream.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, { deadline }, (_, response) =>
        resolve(response),
      );
    });
  const Borrow: handleUnaryCall<BorrowRequest, BorrowResponse> = async ({ request }, callback) => {
    await sleep(delayMs);
    if (isLost()) return; // the caller has its own timeout
    const response = await forward(request);
    await sleep(delayMs);
    if (response && !isLost()) callback(null, response);
  };
  const server = new Server();
  server.register(path, Borrow, borrowMethod.responseSerialize, borrowMethod.requestDeserialize, 'unary');
  const injector = server.createConnectionInjector(
    ServerCredentials.createSsl(ca, [{ cert_chain: cert, private_key: key }], true),
  );
  const sockets = new Set<Socket>();
  const listener = createServer((socket) => {
    if (performance.now() < cutUntilMs) return void socket.destroy();
    sockets.add(socket);
    socket.on('error', () => {});
    socket.once('close', () => sockets.delete(socket));
    injector.injectConnection(socket);
  });
  listener.listen(port, '127.0.0.1');
  await once(listener, 'listening');
  return {
    port,
    get dropped() {
      return counts.dropped;
    },
    get passed() {
      return counts.passed;
    },
    cut(forMs) {
      cutUntilMs = performance.now() + forMs;
      for (const socket of sockets) socket.destroy();
    },
    async close() {
      listener.close();
      for (const socket of sockets) socket.destroy();
      server.forceShutdown();
      upstream.close();
    },
  };
}
