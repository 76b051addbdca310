import type { AddressInfo } from 'node:net';
import Fastify, { type FastifyRequest } from 'fastify';
import { rateLimit } from 'weir-client/fastify';
import { optionsFor, report } from './options.ts';

const app = Fastify();
await app.register(
  rateLimit,
  optionsFor<FastifyRequest>(
    (request, name) => request.headers[name]?.toString(),
    (request) => request.url,
  ),
);
app.get('/', async () => 'hello');
app.get('/health', async () => 'hello');
await app.listen({ port: 0, host: '127.0.0.1' });
report((app.server.address() as AddressInfo).port); // a TCP server
