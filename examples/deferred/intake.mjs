// Accepts refused requests: each becomes a job. Envoy sends them here, with method, path, headers and body.
import { createHash, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { createDeferredQueue } from 'weir-client/bullmq';
import { connection, line, QUEUE } from './requests.mjs';

const { queue, add, close } = createDeferredQueue(QUEUE, { connection, ...line });
queue.on('error', (error) => console.error(error.message));

/** Answers 202 when the request is in the queue, so that it cannot be lost. */
async function accept(request, response) {
  const { 'x-user': user = '', 'content-type': contentType, 'idempotency-key': clientKey } = request.headers;
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const id = clientKey ? createHash('sha256').update(`${user}\n${clientKey}`).digest('hex') : randomUUID();
  const { method, url: path } = request;
  const body = Buffer.concat(chunks).toString('base64');
  const idempotencyKey = clientKey ?? id;
  // A client that repeats its request with the same key gets the same job.
  await add('request', { user, method, path, contentType, idempotencyKey, body }, { jobId: `r-${id}` });
  const location = `/deferred/r-${id}`;
  send(response.setHeader('location', location), 202, { status: 'waiting', location });
}

/** Returns the status of a request, to its own user only. */
async function report(request, response) {
  const job = await queue.getJob(request.url.slice('/deferred/'.length));
  if (!job || job.data.user !== (request.headers['x-user'] ?? '')) return send(response, 404, { status: 'unknown' });
  const state = await job.getState();
  if (state === 'completed') return send(response, 200, { status: 'done', response: job.returnvalue });
  if (state === 'failed') return send(response, 200, { status: 'failed', reason: job.failedReason });
  send(response, 200, { status: state === 'active' ? 'running' : 'waiting' });
}

function send(response, status, value) {
  response.writeHead(status, { 'content-type': 'application/json' }).end(`${JSON.stringify(value)}\n`);
}

const server = createServer((request, response) => {
  const isReport = request.method === 'GET' && request.url.startsWith('/deferred/');
  (isReport ? report(request, response) : accept(request, response)).catch((error) => {
    console.error(error.message);
    if (!response.headersSent) send(response, 503, { status: 'not accepted' });
  });
});
server.listen(Number(process.env.PORT ?? 8002), '127.0.0.1', () => console.log('intake is ready'));
for (const signal of ['SIGTERM', 'SIGINT'])
  process.once(signal, async () => {
    server.close();
    await close();
  });
