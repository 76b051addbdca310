// Sends deferred requests to the upstream when Weir admits them.
import { createClient } from 'weir-client';
import { createDeferredWorker } from 'weir-client/bullmq';
import { connection, line, QUEUE } from './requests.mjs';

const client = createClient({ target: process.env.WEIR ?? 'localhost:8081' });
const lockMs = Number(process.env.LOCK_MS ?? 30_000);
const upstream = process.env.UPSTREAM ?? 'http://localhost:8000';

/** A request is sent again if this process dies: the upstream ignores an idempotency key that it has seen. */
async function send({ data: { user, method, path, contentType, idempotencyKey, body } }) {
  const headers = {
    'x-user': user,
    'idempotency-key': idempotencyKey,
    ...(contentType && { 'content-type': contentType }),
  };
  const response = await fetch(`${upstream}${path}`, { method, headers, body: Buffer.from(body, 'base64') });
  const text = await response.text();
  if (response.status >= 500 || response.status === 429) throw new Error(`the upstream answered ${response.status}`);
  return { status: response.status, body: text };
}

const { worker, close } = createDeferredWorker(QUEUE, send, {
  connection,
  ...line,
  client,
  concurrency: 20,
  // Jobs of a killed worker start again when their locks have expired and a check has noticed it.
  lockDuration: lockMs,
  stalledInterval: lockMs,
  maxAgeMs: 3_600_000,
  removeOnComplete: { age: 24 * 3_600 }, // until then clients may ask for the response
});
worker.on('error', (error) => console.error(error.message));
for (const signal of ['SIGTERM', 'SIGINT'])
  process.once(signal, async () => {
    await close();
    client.close();
  });
await worker.waitUntilReady();
console.log('worker is ready');
