import { once } from 'node:events';
import type { AddressInfo, Server } from 'node:net';
import express from 'express';
import Fastify from 'fastify';
import Koa from 'koa';
import { rateLimit as forExpress } from '../../client/src/express.ts';
import { rateLimit as forFastify } from '../../client/src/fastify.ts';
import { type Client, createClient } from '../../client/src/index.ts';
import { rateLimit as forKoa } from '../../client/src/koa.ts';
import { createEngine } from '../../src/engine/index.ts';
import { closeAll, closeLater } from './service.ts';

afterEach(closeAll);

/** One request a day for each address. */
const RULES =
  'domain: demo\ndescriptors:\n  - key: remote_address\n    rate_limit: { unit: day, requests_per_unit: 1 }\n';

async function listen(server: Server): Promise<number> {
  closeLater(() => server.close());
  if (!server.listening) await once(server, 'listening');
  return (server.address() as AddressInfo).port; // a TCP server
}

/** Starts an app that trusts the proxy in front of it, or not. @returns  its port */
type Start = (client: Client, trusts: boolean) => Promise<number>;

const apps: Readonly<Record<string, Start>> = {
  Express(client, trusts) {
    const app = express().set('trust proxy', trusts);
    app.use(forExpress({ client, domain: 'demo' }));
    app.get('/', (_, response) => void response.send('hello'));
    return listen(app.listen(0, '127.0.0.1'));
  },
  async Fastify(client, trusts) {
    const app = Fastify({ trustProxy: trusts });
    app.register(forFastify, { client, domain: 'demo' });
    app.get('/', async () => 'hello');
    await app.listen({ port: 0, host: '127.0.0.1' });
    return listen(app.server);
  },
  Koa(client, trusts) {
    const app = new Koa({ proxy: trusts });
    app.use(forKoa({ client, domain: 'demo' }));
    app.use((context) => {
      context.body = 'hello';
    });
    return listen(app.listen(0, '127.0.0.1'));
  },
};

test.each(Object.keys(apps))('%s counts by the address that its own setting of proxies determines', async (name) => {
  const statuses: number[][] = [];
  for (const trusts of [true, false]) {
    const client = createClient({ engine: await createEngine({ rules: { text: RULES } }), timeoutMs: 60_000 });
    closeLater(() => client.close());
    const port = await apps[name]?.(client, trusts);
    const from = (address: string) => fetch(`http://127.0.0.1:${port}/`, { headers: { 'x-forwarded-for': address } });
    const answers = [await from('192.0.2.1'), await from('192.0.2.2'), await from('192.0.2.1')];
    statuses.push(answers.map(({ status }) => status));
  }
  expect(statuses).toEqual([
    [200, 200, 429],
    [200, 429, 429],
  ]);
});
