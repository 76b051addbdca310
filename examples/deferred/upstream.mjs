// The protected service: accepts each order once. A real one stores keys and orders in one transaction.
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';

const orders = new Map();

const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const json = { 'content-type': 'application/json' };
  if (request.method === 'GET') return response.writeHead(200, json).end(JSON.stringify([...orders.values()]));
  const key = `${request.headers['x-user']} ${request.headers['idempotency-key'] ?? orders.size}`;
  const sha256 = createHash('sha256').update(Buffer.concat(chunks)).digest('hex');
  if (!orders.has(key))
    orders.set(key, { order: orders.size + 1, user: request.headers['x-user'], path: request.url, sha256 });
  response.writeHead(201, json).end(JSON.stringify(orders.get(key)));
});
server.listen(Number(process.env.PORT ?? 8000), '127.0.0.1', () => console.log('upstream is ready'));
for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, () => process.exit());
