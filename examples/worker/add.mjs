// Adds webhooks to the queue: node add.mjs CUSTOMER URL [COUNT]
import { createDeferredQueue } from 'weir-client/bullmq';
import { connection, line, QUEUE } from './webhooks.mjs';

const [customer, url, count = '1'] = process.argv.slice(2);
if (!customer || !url) {
  console.error('Usage: node add.mjs CUSTOMER URL [COUNT]');
  process.exit(2);
}
const { addBulk, close } = createDeferredQueue(QUEUE, { connection, ...line });
const events = Array.from({ length: Number(count) }, (_, at) => ({ event: 'created', at }));
const jobs = await addBulk(events.map((event) => ({ name: 'webhook', data: { customer, url, event } })));
console.log(`${jobs.length} webhooks added`);
await close();
