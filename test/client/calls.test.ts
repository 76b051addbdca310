import { once } from 'node:events';
import { createServer } from 'node:net';
import { freePort } from '../helpers/process.ts';
import { until } from '../helpers/until.ts';
import { allowed, startScripted } from './scripted-server.ts';
import { closeAll, listen, openClient, RULES, startService, TIMEOUT_MS } from './service.ts';

afterEach(closeAll);

test('a call that its caller no longer waits for is cancelled at the server', async () => {
  let begun = 0;
  let cancelled = 0;
  const { target } = await startScripted({
    async shouldRateLimit(_, call) {
      begun++;
      if (!call.cancelled) await once(call, 'cancelled');
      cancelled++;
      return allowed;
    },
  });
  const client = await openClient({ target, batch: false });
  expect(await client.limit('demo', { user: 'a' }, { timeoutMs: 1_000 })).toMatchObject({ error: { kind: 'timeout' } });
  await until('the first call is cancelled', () => cancelled === 1);
  const controller = new AbortController();
  const aborted = client.limit('demo', { user: 'a' }, { signal: controller.signal });
  const rejected = expect(aborted).rejects.toThrow('gave up');
  await until('the server handles the second call', () => begun === 2);
  controller.abort(new Error('gave up'));
  await rejected;
  await until('both calls are cancelled', () => cancelled === 2);
  expect(client.stats()).toMatchObject({ aborted: 1, failed: 1, servers: [{ sent: 2, failed: 1, inFlight: 0 }] });
});

test('the server is sent the time for which its caller waits', async () => {
  const timeouts: number[] = [];
  const { target } = await startScripted({
    shouldRateLimit(_, call) {
      timeouts.push(Number(call.getDeadline()) - Date.now());
      return allowed;
    },
  });
  const client = await openClient({ target, batch: false });
  await client.limit('demo', { user: 'a' }, { timeoutMs: 30_000 });
  await client.limit('demo', { user: 'a' }, { timeoutMs: 2e9 });
  const [short = 0, long = 0] = timeouts;
  expect(short).toBeLessThanOrEqual(30_000);
  expect(long).toBeLessThanOrEqual(99_999_999); // the largest value of the header
  expect(long).toBeGreaterThan(short);
});

test('an answer that arrived while the process was busy is read before its call times out', async () => {
  const { grpc: target } = await startService(RULES);
  const client = await openClient({ target, batch: false });
  await client.limit('demo', { slow: 'x' }, { hits: 5 });
  const call = client.limit('demo', { slow: 'x' }, { hits: 5, timeoutMs: 3_000 }); // the rule delays it by a second
  await new Promise((resolve) => setTimeout(resolve, 200)); // the call has been sent
  await new Promise((resolve) => setImmediate(resolve)); // timers run next, then sockets
  const endMs = performance.now() + 3_500; // so that a busy machine has answered, too
  while (performance.now() < endMs);
  expect(await call).toMatchObject({ ok: true, error: undefined });
});

test('a change of the system clock ends no health check and no call for a slot', async () => {
  const { grpc: target } = await startService(RULES);
  const client = await openClient({ target });
  const clock = jest.spyOn(Date, 'now');
  try {
    clock.mockReturnValue(Date.now() + 3_600_000);
    expect(await client.ready({ timeoutMs: TIMEOUT_MS })).toBe(true);
    expect(await client.slot('demo', { tenant: 'clock' }, { timeoutMs: TIMEOUT_MS })).toMatchObject({ ok: true });
  } finally {
    clock.mockRestore();
  }
});

test('a server that was updated while it was away gets batches', async () => {
  const port = await freePort();
  const old = await startScripted({ port, shouldRateLimit: () => allowed });
  const client = await openClient({ target: old.target, breaker: false });
  const callTwice = () => Promise.all([client.limit('demo', { free: 1 }), client.limit('demo', { free: 2 })]);
  await callTwice();
  expect(client.stats().servers[0]?.takesBatches).toBe(false);
  old.stop();
  while ((await callTwice()).some(({ error }) => !error));
  await startService(RULES, { GRPC_PORT: String(port) });
  while ((await callTwice()).some(({ error }) => error));
  expect(client.stats().servers[0]?.takesBatches).toBe(true);
});

test('hits are refunded once, even if a server fails after it has counted', async () => {
  let requests = 0;
  const startFailing = async () => {
    const server = createServer((socket) => {
      socket.on('error', () => {});
      socket.on('data', (data) => {
        if (data.toString().includes('POST /json')) requests++;
        socket.resetAndDestroy();
      });
    });
    return `http://127.0.0.1:${await listen(server)}`;
  };
  const target = [await startFailing(), await startFailing()];
  const client = await openClient({ target }, { isUp: false });
  await client.limit('demo', { user: 'a' }, { hits: -1 });
  expect(requests).toBe(1);
  await client.limit('demo', { user: 'a' });
  expect(requests).toBe(3);
});

test('a request over HTTP on an idle connection that the server closes is sent again', async () => {
  const answer = 'HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n{"overallCode":"OK"}';
  let requests = 0;
  const server = createServer((socket) => {
    let isFirst = true;
    socket.on('error', () => {});
    socket.on('data', (data) => {
      if (!data.toString().includes('POST /json')) return;
      requests++;
      if (isFirst) socket.write(answer);
      else socket.resetAndDestroy();
      isFirst = false;
    });
  });
  const port = await listen(server);
  const client = await openClient({ target: `http://127.0.0.1:${port}` }, { isUp: false });
  for (let calls = 0; calls < 3; calls++)
    expect(await client.limit('demo', { user: 'a' })).toMatchObject({ ok: true, error: undefined });
  expect(requests).toBe(5);
});

describe('the holder of a slot', () => {
  const held = { held: true, ttl: { seconds: 3, nanos: 0 }, retry_after: null };

  test('releases it after a pending renewal, which would otherwise take the slot again', async () => {
    const events: string[] = [];
    let finishRenewal = (): void => {};
    const { target } = await startScripted({
      acquire: () => held,
      async renew() {
        events.push('renewal begins');
        await new Promise<void>((resolve) => {
          finishRenewal = resolve;
        });
        events.push('renewal ends');
        return held;
      },
      release() {
        events.push('release');
        return {};
      },
    });
    const client = await openClient({ target });
    const outcome = await client.slot('demo', { tenant: 'a' }, { timeoutMs: TIMEOUT_MS });
    if (!outcome.ok) throw new Error('no slot');
    await until('it is renewed', () => events.length > 0);
    const released = outcome.slot.release();
    setTimeout(finishRenewal, 50);
    await released;
    expect(events).toEqual(['renewal begins', 'renewal ends', 'release']);
  });

  test('releases it when it has given up waiting, since the server may have granted it anyway', async () => {
    const released: unknown[] = [];
    const { target } = await startScripted({
      acquire: () => new Promise(() => {}),
      renew: () => held,
      release({ request }) {
        released.push(request?.descriptors[0]?.entries);
        return {};
      },
    });
    const client = await openClient({ target });
    const call = client.slot('demo', { tenant: 'a' }, { id: 'x', timeoutMs: 100 });
    await expect(call).rejects.toMatchObject({ name: 'WeirUnavailable', kind: 'timeout' });
    await until('it is released', () => released.length === 1);
    expect(released[0]).toEqual([
      { key: 'tenant', value: 'a' },
      { key: 'request_id', value: 'x' },
    ]);
  });
});
