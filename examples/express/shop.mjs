// A backend that limits its own requests, without a proxy.
import express from 'express';
import { createClient } from 'weir-client';
import { rateLimit } from 'weir-client/express';

const client = createClient({
  target: process.env.WEIR ?? 'localhost:8081',
  timeoutMs: Number(process.env.TIMEOUT_MS ?? 50),
  onError: 'local',
});

/** Counts customers by API key, and everyone else by address. A real shop validates the key first. */
const key = (request, address) => {
  const apiKey = request.get('x-api-key');
  return apiKey ? { api_key: apiKey } : { remote_address: address };
};

const limited = rateLimit({ client, domain: 'shop', key });
/** A report costs as much as ten other requests. */
const costly = rateLimit({ client, domain: 'shop', key, cost: () => 10 });

const app = express();
app.set('trust proxy', Number(process.env.PROXIES ?? 0)); // the number of proxies in front
app.get('/health', (_, response) => void response.send('ok\n')); // not limited
app.get('/items', limited, (_, response) => void response.json(['scarf', 'hat']));
app.get('/report', costly, (_, response) => void response.json({ sold: 3 }));

await client.ready();
const server = app.listen(Number(process.env.PORT ?? 3000), '127.0.0.1', () => console.log('shop is ready'));
for (const signal of ['SIGTERM', 'SIGINT'])
  process.once(signal, () => {
    server.close(() => client.close());
    server.closeIdleConnections();
  });
