// Sends webhooks when Weir admits them. Any number of these workers can run.
import { createClient } from 'weir-client';
import { createDeferredWorker } from 'weir-client/bullmq';
import { connection, line, QUEUE } from './webhooks.mjs';

const client = createClient({ target: process.env.WEIR ?? 'localhost:8081' });

/** A webhook is sent again if no answer arrives, or if this process dies: the receiver ignores an id that it has seen. */
async function send({ id, data: { url, event } }) {
  const headers = { 'content-type': 'application/json', 'idempotency-key': id };
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(event) });
  if (response.status >= 500 || response.status === 429) throw new Error(`${url} answered ${response.status}`);
  return response.status;
}

const { worker, close } = createDeferredWorker(QUEUE, send, {
  connection,
  ...line,
  client,
  concurrency: 20,
  maxAgeMs: 24 * 3_600_000,
});
worker.on('error', (error) => console.error(error.message));
worker.on('failed', (job, error) => {
  if (job?.finishedOn) console.error(`given up: webhook ${job.id} for ${job.data.customer}: ${error.message}`);
});
for (const signal of ['SIGTERM', 'SIGINT'])
  process.once(signal, async () => {
    await close();
    client.close();
  });
await worker.waitUntilReady();
console.log('worker is ready');
