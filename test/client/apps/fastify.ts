import type { AddressInfo } from 'node:net';
import Fastify, { type FastifyRequest } from 'fastify';
import { rateLimit, rateLimitHook } from 'weir-client/fastify';
import { OWN_REFUSAL, optionsFor, report } from './options.ts';

const options = optionsFor<FastifyRequest>(
  (request, name) => request.headers[name]?.toString(),
  (request) => request.url,
);
const hook = rateLimitHook({ ...options, skip: () => false, onRefused: () => OWN_REFUSAL });

const app = Fastify();
app.get('/', async () => 'hello'); // limited although it is registered before
await app.register(rateLimit, options);
app.get('/health', async () => 'hello');
app.get('/own', { onRequest: hook }, async () => 'hello');
await app.listen({ port: 0, host: '127.0.0.1' });
report('fastify', (app.server.address() as AddressInfo).port); // a TCP server
