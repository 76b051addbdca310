import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import { type FetchOptions, OriginPaused, weirFetch } from '../../client/src/fetch.ts';
import { until } from '../helpers/until.ts';
import { startApi } from './others-api.ts';
import { closeAll } from './service.ts';

afterEach(closeAll);

const quick: FetchOptions = { baseBackoffMs: 1 };
const limited = (seconds: number) => ({ status: 429, headers: { 'retry-after': String(seconds) } });

test('a request that is answered with 429 is sent again, not before the time that the answer names', async () => {
  const { origin, received } = await startApi(limited(1));
  const response = await weirFetch(quick)(origin);
  expect([response.status, await response.text()]).toEqual([200, 'answer 1']);
  const [first, second] = received;
  expect((second?.atMs ?? 0) - (first?.atMs ?? 0)).toBeGreaterThan(990); // timers count whole milliseconds
});

test('a pause delays all requests to the origin, and no others', async () => {
  const { origin, received } = await startApi(limited(1));
  const other = await startApi();
  const send = weirFetch({ ...quick, maxAttempts: 1 });
  expect((await send(origin)).status).toBe(429);
  expect((await send(other.origin)).status).toBe(200);
  const answers = await Promise.all(['/a', '/b', '/c'].map((path) => send(`${origin}${path}`)));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
  for (const { atMs } of received.slice(1)) expect(atMs - (received[0]?.atMs ?? 0)).toBeGreaterThan(990);
  expect(send.stats()).toMatchObject({ requests: 5, retries: 0, held: 3 });
});

test('a successful response without remaining hits delays the next request', async () => {
  const { origin, received } = await startApi({ status: 200, headers: { ratelimit: '"burst";r=0;t=1' } });
  const send = weirFetch(quick);
  await send(origin);
  await send(origin);
  expect((received[1]?.atMs ?? 0) - (received[0]?.atMs ?? 0)).toBeGreaterThan(990);
});

test('a wait beyond its bound does not start: the response is returned, and later requests are not sent', async () => {
  const { origin, received } = await startApi({ ...limited(60), body: 'come back' });
  const send = weirFetch({ ...quick, maxWaitMs: 5_000 });
  const response = await send(origin);
  expect([response.status, await response.text()]).toEqual([429, 'come back']);
  const error: OriginPaused = await send(origin).catch((thrown) => thrown);
  expect(error).toBeInstanceOf(OriginPaused);
  expect(error.key).toBe(origin);
  expect(error.retryAfterMs).toBeLessThanOrEqual(60_000);
  expect(received).toHaveLength(1);
  expect(send.stats()).toMatchObject({ requests: 2, notSent: 1 });
});

test('no response can cause a pause beyond maxPauseMs', async () => {
  const { origin } = await startApi(limited(999_999_999));
  const send = weirFetch({ ...quick, maxPauseMs: 10 });
  expect((await send(origin)).status).toBe(200);
});

const body = 'text';
const stream = () => Readable.toWeb(createReadStream(import.meta.filename)) as ReadableStream; // a stream of the web
const keyed = { 'Idempotency-Key': '"order-7"' };

test.each<[string, RequestInit, FetchOptions, number]>([
  ['GET', {}, {}, 2],
  ['HEAD', { method: 'HEAD' }, {}, 2],
  ['DELETE', { method: 'delete' }, {}, 2],
  ['PUT with a text', { method: 'PUT', body }, {}, 2],
  ['PUT with a form', { method: 'PUT', body: new URLSearchParams({ a: 'b' }) }, {}, 2],
  ['PUT with a blob', { method: 'PUT', body: new Blob([body]) }, {}, 2],
  ['PUT with a stream', { method: 'PUT', body: stream(), duplex: 'half' }, {}, 1],
  ['POST', { method: 'POST', body }, {}, 1],
  ['POST with a key', { method: 'POST', body, headers: keyed }, {}, 1],
  ['POST with a trusted key', { method: 'POST', body, headers: keyed }, { idempotencyKey: 'trust' }, 2],
  ['POST without a key to trust', { method: 'POST', body }, { idempotencyKey: 'trust' }, 1],
  ['POST with a key that is added', { method: 'POST', body }, { idempotencyKey: 'add' }, 2],
  ['POST with a stream', { method: 'POST', body: stream(), duplex: 'half' }, { idempotencyKey: 'add' }, 1],
  ['PATCH with a key that is added', { method: 'PATCH', body }, { idempotencyKey: 'add' }, 2],
])('only repeatable requests are repeated: %s', async (_, init, options, attempts) => {
  const { origin, received } = await startApi({ status: 503 });
  await weirFetch({ ...quick, ...options })(origin, init);
  expect(received).toHaveLength(attempts);
  const [first, second = first] = received;
  expect([second?.method, second?.body, second?.headers['idempotency-key']]).toEqual([
    first?.method,
    first?.body,
    first?.headers['idempotency-key'],
  ]);
  if (options.idempotencyKey === 'add' && attempts === 2)
    expect(first?.headers['idempotency-key']).toMatch(/^"[0-9a-f-]{36}"$/);
});

test('a Request is repeated if it has no body', async () => {
  const { origin, received } = await startApi({ status: 503 }, { status: 200 }, { status: 503 });
  const send = weirFetch(quick);
  expect((await send(new Request(origin, { headers: { 'x-own': '1' } }))).status).toBe(200);
  expect(received[1]?.headers['x-own']).toBe('1');
  expect((await send(new Request(origin, { method: 'PUT', body }))).status).toBe(503);
});

test.each([200, 400, 401, 404, 409, 500, 501])('an answer with %i is not repeated', async (status) => {
  const { origin, received } = await startApi({ status });
  expect((await weirFetch(quick)(origin)).status).toBe(status);
  expect(received).toHaveLength(1);
});

test('a request whose connection ends without an answer is repeated, and the last error is thrown', async () => {
  const { origin, received } = await startApi('cut', { status: 200 }, 'cut', 'cut', 'cut');
  const send = weirFetch(quick);
  expect((await send(origin)).status).toBe(200);
  await expect(send(origin)).rejects.toThrow('fetch failed');
  expect(received).toHaveLength(5);
  await expect(send('no url')).rejects.toMatchObject({ name: 'TypeError' });
  await expect(send(origin, { method: 'IN VALID' })).rejects.toMatchObject({ name: 'TypeError' });
  expect(received).toHaveLength(5);
});

test('the signal of a request ends its waits with its reason', async () => {
  const { origin, received } = await startApi(limited(60));
  const send = weirFetch({ maxWaitMs: 600_000 });
  const controller = new AbortController();
  const retried = send(origin, { signal: controller.signal });
  await until('a retry', () => send.stats().retries > 0);
  const held = send(new Request(origin, { signal: controller.signal }));
  await until('a held request', () => send.stats().held > 0);
  controller.abort(new Error('gave up'));
  await expect(retried).rejects.toThrow('gave up');
  await expect(held).rejects.toThrow('gave up');
  expect(received).toHaveLength(1);
});

test('retries are at most a tenth of the requests, after the saved ones are used up', async () => {
  const { origin, received } = await startApi(...Array.from({ length: 1_000 }, () => ({ status: 503 })));
  const send = weirFetch({ ...quick, maxAttempts: 5, budget: { ratio: 0.1, max: 4 } });
  for (let at = 0; at < 100; at++) expect((await send(origin)).status).toBe(503);
  const { requests, retries, overBudget } = send.stats();
  expect(retries).toBeLessThanOrEqual(4 + requests * 0.1);
  expect(retries).toBeGreaterThanOrEqual(requests * 0.1);
  expect(overBudget).toBeGreaterThan(0);
  expect(received).toHaveLength(requests + retries);
});

test('without a budget, every request gets all attempts', async () => {
  const { origin, received } = await startApi(...Array.from({ length: 90 }, () => ({ status: 503 })));
  const send = weirFetch({ ...quick, budget: false });
  for (let at = 0; at < 30; at++) await send(origin);
  expect(received).toHaveLength(90);
});

test.each<[FetchOptions, string]>([
  [{ maxAttempts: 0 }, 'maxAttempts must be a number from 1 to 100, got 0'],
  [{ maxWaitMs: -1 }, 'maxWaitMs'],
  [{ budget: { ratio: 2 } }, 'budget.ratio'],
  [JSON.parse('{"maxAttempt": 1}'), 'maxAttempt: no such option; did you mean maxAttempts?'],
  [JSON.parse('{"idempotencyKey": "always"}'), "idempotencyKey: expected 'trust' or 'add', got 'always'"],
])('the option %j is refused', (options, message) => {
  expect(() => weirFetch(options)).toThrow(message);
});
