import { createServer, type IncomingMessage } from 'node:http';
import { closeAll, closeLater, listen, startService } from '../client/service.ts';
import { startRedis } from '../helpers/redis.ts';
import { until } from '../helpers/until.ts';
import { openExample } from './example.ts';

const TIMEOUT_MS = 120_000;
const WEBHOOKS = 20;

afterEach(closeAll);

/** A customer's endpoint, which records the ids and numbers of received webhooks. */
async function startReceiver() {
  const received: { readonly id: string; readonly at: number }[] = [];
  const server = createServer(async (request, response) => {
    const { at } = JSON.parse(await textOf(request));
    received.push({ id: String(request.headers['idempotency-key']), at });
    // The first webhook fails once.
    response.writeHead(received.length === 1 ? 500 : 204).end();
  });
  return { received, url: `http://127.0.0.1:${await listen(server)}/hook` };
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request) text += chunk;
  return text;
}

test('the worker of the example sends all webhooks in order, and repeats a failed one with the same id', async () => {
  const example = await openExample('worker');
  const redis = await startRedis();
  closeLater(() => redis.stop());
  const service = await startService(example.rules);
  const { received, url } = await startReceiver();
  const env = { REDIS_PORT: String(redis.port), WEIR: service.grpc };
  const worker = await example.run('worker.mjs', { env, ready: 'worker is ready' });
  closeLater(() => worker.stop());
  const added = `${WEBHOOKS} webhooks added`;
  const adding = await example.run('add.mjs', { args: ['acme', url, String(WEBHOOKS)], env, ready: added });
  expect((await adding.exited).code).toBe(0);
  const ids = () => new Set(received.slice(1).map(({ id }) => id));
  await until('all webhooks arrive', () => ids().size === WEBHOOKS, TIMEOUT_MS);
  const first = received[0]?.id;
  const others = received.filter(({ id }) => id !== first).map(({ at }) => at);
  expect(others).toEqual(Array.from({ length: WEBHOOKS - 1 }, (_, at) => at + 1));
  expect(received.filter(({ id }) => id === first).map(({ at }) => at)).toEqual([0, 0]);
  expect((await worker.stop()).code).toBe(0);
});
