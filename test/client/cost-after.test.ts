import { once } from 'node:events';
import { type AddressInfo, connect, type Server } from 'node:net';
import { Readable } from 'node:stream';
import express from 'express';
import Fastify from 'fastify';
import { Hono } from 'hono';
import { rateLimit as forExpress } from '../../client/src/express.ts';
import { rateLimit as forFastify } from '../../client/src/fastify.ts';
import { rateLimit as forHono } from '../../client/src/hono.ts';
import type { Client } from '../../client/src/index.ts';
import { until } from '../helpers/until.ts';
import { closeAll, closeLater } from './service.ts';

afterEach(closeAll);

/** Options with a client that allows all requests after `wait`, and the hits that the client has counted. */
function counting(wait = async () => {}) {
  const hits: unknown[] = [];
  const limit = async (_: string, __: unknown, options?: { readonly hits?: number }) => {
    hits.push(options?.hits);
    await wait();
    return { ok: true, headers: [], descriptors: [] };
  };
  const client = { limit } as unknown as Client; // the only method that the middlewares use
  return { options: { client, domain: 'demo', costAfter: () => 4 }, hits };
}

type Options = ReturnType<typeof counting>['options'];

/** A response that starts but never ends. */
const endless = (): Readable => {
  const stream = new Readable({ read() {} });
  stream.push('begun');
  return stream;
};

const apps: Readonly<Record<string, (options: Options) => Promise<Server>>> = {
  async express(options) {
    const app = express();
    app.get('/', forExpress(options), (_, response) => void endless().pipe(response));
    const server = app.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return server;
  },
  async fastify(options) {
    const app = Fastify();
    app.register(forFastify, options);
    app.get('/', (_, reply) => reply.send(endless()));
    await app.listen({ port: 0, host: '127.0.0.1' });
    return app.server;
  },
};

/** Sends a request to the app, and returns its connection. */
async function callApp(name: string, options: Options) {
  const server = await apps[name]?.(options);
  if (!server) throw new Error(`no app ${name}`);
  closeLater(() => server.close());
  const accepted = once(server, 'connection');
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1'); // a TCP server
  socket.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n');
  const [peer] = await accepted;
  return { socket, peer };
}

test.each(Object.keys(apps))('%s counts the cost of a response whose client leaves before its end', async (name) => {
  const { options, hits } = counting();
  const { socket } = await callApp(name, options);
  await once(socket, 'data');
  socket.destroy();
  await until('the rest is counted', () => hits.length === 2);
  expect(hits).toEqual([1, 3]);
});

test.each(Object.keys(apps))('%s counts the cost if the client leaves before the decision', async (name) => {
  let decide = (): void => {};
  const decided = new Promise<void>((resolve) => {
    decide = resolve;
  });
  const { options, hits } = counting(() => decided);
  const { socket, peer } = await callApp(name, options);
  await until('the request is counted', () => hits.length === 1);
  const closed = once(peer, 'close');
  socket.destroy();
  await closed;
  decide();
  await until('the rest is counted', () => hits.length === 2);
});

test('Hono counts the cost when the body has been read', async () => {
  const { options, hits } = counting();
  let total = 1;
  const app = new Hono();
  app.use(forHono({ ...options, peer: () => '192.0.2.1', costAfter: () => total }));
  const encoded = new TextEncoder().encode('begun');
  const pull = (controller: ReadableStreamDefaultController) => {
    controller.enqueue(encoded);
    controller.close();
    total = 10;
  };
  app.get('/', () => new Response(new ReadableStream({ pull }, { highWaterMark: 0 })));
  expect(await (await app.request('/')).text()).toBe('begun');
  await until('the rest is counted', () => hits.length === 2);
  expect(hits).toEqual([1, 9]);
});
