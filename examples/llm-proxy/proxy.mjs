// Forwards requests to a language model, for each tenant up to its tokens per minute.
import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';
import { createClient } from 'weir-client';
import { createMeter, expectedTokens } from './usage.mjs';

const UPSTREAM = process.env.UPSTREAM ?? 'http://127.0.0.1:9001';
/** Shorter than the ttl of a reservation. */
const MAX_ANSWER_MS = 50_000;

const weir = createClient({ target: process.env.WEIR ?? 'localhost:8081' });
const timeoutMs = Number(process.env.TIMEOUT_MS ?? 1_000);

/** Reserves the possible cost of the request, and commits the actual cost when it ends, even if it fails. */
async function chat(request, response) {
  const tenant = request.headers['x-tenant']; // a real proxy derives it from the credentials
  if (!tenant) return send(response, 401, 'expected x-tenant');
  const body = await json(request).catch(() => undefined);
  if (typeof body !== 'object' || !Array.isArray(body?.messages)) return send(response, 400, 'expected messages');
  const outcome = await weir.reserve('llm', { tenant }, expectedTokens(body), { timeoutMs }).catch(() => undefined);
  if (!outcome) return send(response.setHeader('retry-after', '1'), 503, 'tokens cannot be counted');
  if (!outcome.ok) {
    // Without a time, the request can never pass: it is larger than its limit.
    if (outcome.retryAfterMs === undefined) return send(response, 413, 'the request may cost too many tokens');
    response.setHeader('retry-after', String(Math.ceil(outcome.retryAfterMs / 1_000)));
    return send(response, 429, 'no tokens left');
  }
  const meter = createMeter();
  try {
    await passOn(body, response, meter);
  } finally {
    const { charged } = await outcome.reservation.commit(meter.used());
    console.log(`${tenant}: reserved ${outcome.reservation.hits}, charged ${charged}`);
  }
}

/** Streams the answer. Aborts the request to the model when the client disconnects. */
async function passOn(body, response, meter) {
  const gone = new AbortController();
  const leave = () => gone.abort();
  response.once('close', leave);
  const upstream = await fetch(`${UPSTREAM}/v1/chat/completions`, {
    method: 'POST',
    // An idle connection may be closed just when it is reused, and a POST must not be sent twice.
    headers: { 'content-type': 'application/json', connection: 'close' },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    signal: AbortSignal.any([gone.signal, AbortSignal.timeout(MAX_ANSWER_MS)]),
  });
  response.writeHead(upstream.status, { 'content-type': upstream.headers.get('content-type') ?? 'text/plain' });
  for await (const chunk of upstream.body ?? []) {
    if (upstream.ok) meter.read(chunk);
    response.write(chunk);
  }
  response.off('close', leave).end();
}

function send(response, status, error) {
  response.writeHead(status, { 'content-type': 'application/json' }).end(`${JSON.stringify({ error })}\n`);
}

const server = createServer((request, response) => {
  chat(request, response).catch((error) => {
    if (response.headersSent || response.destroyed) return response.destroy();
    console.error(error.cause?.message ?? error.message);
    send(response, 502, 'the model does not answer');
  });
});
await weir.ready();
server.listen(Number(process.env.PORT ?? 9000), '127.0.0.1', () => console.log('proxy is ready'));
for (const signal of ['SIGTERM', 'SIGINT'])
  process.once(signal, () => {
    server.close(() => weir.close());
    server.closeIdleConnections();
  });
