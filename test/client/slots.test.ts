import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, LimitExceeded, type Slot, type SlotOutcome } from '../../client/src/index.ts';
import { until } from '../helpers/until.ts';
import { asLocal } from '../helpers/weir.ts';
import { allowed, startScripted } from './scripted-server.ts';
import { closeAll, closeLater, listen, openClient, RULES, type Service, startService, TIMEOUT_MS } from './service.ts';

/** Slots are renewed three times within this time; long, since the machine may be busy. */
const TTL_MS = 6_000;
const PATIENT = { timeoutMs: TIMEOUT_MS };
const WAITING = { ...PATIENT, maxDelayMs: 120_000 };

let service: Service;
/** A slot that is held while other tests run, and its client. */
let held: { readonly client: Client; readonly outcome: SlotOutcome; readonly sinceMs: number };
beforeAll(async () => {
  service = await startService(RULES.replace('ttl: 2s', `ttl: ${TTL_MS}ms`));
  const client = await open();
  held = { client, outcome: await client.slot('demo', { tenant: 'c' }, PATIENT), sinceMs: performance.now() };
});
afterAll(closeAll);

const ADAPTIVE = `
domain: adaptive
descriptors:
  - key: service
    descriptors:
      - key: request_id
        not_counted: hold
        rate_limit: { algorithm: in_flight, ttl: 30s, adapt: { window: 100ms } }
`;

test('an adaptive limit learns which functions have thrown, and which statuses were reported', async () => {
  const adaptive = await startService(ADAPTIVE);
  const client = await openClient({ target: adaptive.grpc });
  const explained = async (name: string): Promise<string> => {
    const entries = Object.entries({ service: name, request_id: 'mine' }).map(([key, value]) => ({ key, value }));
    const body = JSON.stringify({ domain: 'adaptive', descriptors: [{ entries }] });
    const url = `http://127.0.0.1:${adaptive.debugPort}/api/v1/explain`;
    return await (await fetch(url, { method: 'POST', body, headers: asLocal(adaptive) })).text();
  };
  const fails = (name: string) =>
    client.withSlot('adaptive', { service: name }, () => sleep(5).then(() => Promise.reject('no')), PATIENT);
  const works = (name: string) => client.withSlot('adaptive', { service: name }, () => sleep(5), PATIENT);
  const states = async (name: string): Promise<void> => {
    const held = await client.slot('adaptive', { service: name }, PATIENT);
    await sleep(5);
    if (held.ok) await held.slot.release(503);
  };
  for (const [name, use, expected] of [
    ['thrown', () => fails('thrown').catch(() => {}), /as requests fail/],
    ['stated', () => states('stated'), /as requests fail/],
    ['worked', () => works('worked'), /held for/],
  ] as const)
    await until(`the limit of ${name} is known`, async () => {
      await use();
      return expected.test(await explained(name));
    });
  const held = await client.slot('adaptive', { service: 'other' }, PATIENT);
  if (!held.ok) throw new Error('there is no slot');
  expect(() => held.slot.release(99)).toThrow('status must be');
  await held.slot.release();
});

const open = (protocol: 'grpc' | 'http' = 'grpc') => openClient({ target: service[protocol] });

describe.each(['grpc', 'http'] as const)('over %s', (protocol) => {
  test('a function runs with a slot that no other caller gets, and that is freed afterwards', async () => {
    const client = await open(protocol);
    const run = async (slot: Slot) => {
      expect(slot.signal.aborted).toBe(false);
      const refused = await client.slot('demo', { tenant: `${protocol}-a` }, PATIENT);
      expect(refused).toMatchObject({ ok: false, retryAfterMs: expect.any(Number) });
      await expect(client.withSlot('demo', { tenant: `${protocol}-a` }, () => 'never', PATIENT)).rejects.toThrow(
        LimitExceeded,
      );
      return 'done';
    };
    expect(await client.withSlot('demo', { tenant: `${protocol}-a` }, run, PATIENT)).toBe('done');
    expect(await client.withSlot('demo', { tenant: `${protocol}-a` }, () => 'again', PATIENT)).toBe('again');
  });

  test('the slot is released when the function throws', async () => {
    const client = await open(protocol);
    const fail = () => {
      throw new Error('failed');
    };
    await expect(client.withSlot('demo', { tenant: `${protocol}-b` }, fail, PATIENT)).rejects.toThrow('failed');
    expect(await client.withSlot('demo', { tenant: `${protocol}-b` }, () => 'free', PATIENT)).toBe('free');
  });

  test('a slot that is released after the client was closed is free, and no other is taken', async () => {
    const client = await open(protocol);
    const held = await client.slot('demo', { tenant: `${protocol}-closed` }, PATIENT);
    if (!held.ok) throw new Error('there is no slot');
    client.close();
    await expect(client.slot('demo', { tenant: `${protocol}-other` }, PATIENT)).rejects.toMatchObject({
      kind: 'closed',
    });
    await held.slot.release();
    const another = await open(protocol);
    expect(await another.withSlot('demo', { tenant: `${protocol}-closed` }, () => 'free', PATIENT)).toBe('free');
  });

  test('a caller that gives up waiting rejects with its reason, and holds no slot', async () => {
    const client = await open(protocol);
    const held = await client.slot('demo', { tenant: `${protocol}-d` }, PATIENT);
    const controller = new AbortController();
    const waiting = client.slot('demo', { tenant: `${protocol}-d` }, { ...WAITING, signal: controller.signal });
    setImmediate(() => controller.abort(new Error('gave up')));
    await expect(waiting).rejects.toThrow('gave up');
    if (held.ok) await held.slot.release();
    expect(await client.withSlot('demo', { tenant: `${protocol}-d` }, () => 'free', WAITING)).toBe('free');
  });

  test('the signal of a slot aborts when it is lost to another holder', async () => {
    const client = await open(protocol);
    const outcome = await client.slot('demo', { tenant: `${protocol}-e` }, { ...PATIENT, id: 'lost' });
    if (!outcome.ok) throw new Error('no slot');
    const other = await open(protocol);
    await until('the slot is taken by another holder', async () => {
      await other.limit('demo', { tenant: `${protocol}-e`, request_id: 'lost' }, { hits: -1 }); // frees it as an operator would
      return (await other.slot('demo', { tenant: `${protocol}-e` }, PATIENT)).ok; // unless a renewal was faster
    });
    await until('the slot is lost', () => outcome.slot.signal.aborted);
    expect(String(outcome.slot.signal.reason)).toContain('slot lost has expired');
  });
});

test('a slot is renewed while it is held, and waiting callers get it in order', async () => {
  const { client, outcome: first, sinceMs } = held;
  const order: string[] = [];
  const run = (name: string) => client.withSlot('demo', { tenant: 'c' }, () => void order.push(name), WAITING);
  const second = run('second');
  await sleep(sinceMs + TTL_MS * 1.5 - performance.now()); // without renewal it would have expired
  expect(order).toEqual([]);
  const third = run('third');
  if (!first.ok) throw new Error('the first has no slot');
  expect(first.slot.signal.aborted).toBe(false);
  await first.slot.release();
  await first.slot.release(); // changes nothing
  await Promise.all([second, third]);
  expect(order).toEqual(['second', 'third']);
});

test('over HTTP, a slot can be released while many calls wait for one', async () => {
  const client = await open('http');
  const held = await client.slot('demo', { tenant: 'crowd' }, PATIENT);
  if (!held.ok) throw new Error('no slot');
  const controller = new AbortController();
  const { signal } = controller;
  const ended = Array.from({ length: 300 }, () =>
    client.withSlot('demo', { tenant: 'crowd' }, () => controller.abort(), { ...WAITING, signal }).catch(() => {}),
  );
  await held.slot.release();
  await Promise.all(ended); // the first that gets the slot ends the others
  expect(signal.aborted).toBe(true);
});

test.each(['grpc', 'http'])('a server without slots is named by the error of the call, over %s', async (protocol) => {
  const { target } = await startScripted({ shouldRateLimit: () => allowed });
  const server = createServer((_, response) => response.writeHead(404).end('404 page not found\n'));
  const port = await listen(server);
  const client = await openClient(
    { target: protocol === 'grpc' ? target : `http://127.0.0.1:${port}` },
    { isUp: false },
  );
  await expect(client.slot('demo', { tenant: 'a' }, PATIENT)).rejects.toMatchObject({ kind: 'unimplemented' });
});

test('a call for a slot that gets no answer ends at its deadline, over HTTP', async () => {
  const server = createServer(() => {}); // never answers
  closeLater(() => server.closeAllConnections());
  const port = await listen(server);
  const client = await openClient({ target: `http://127.0.0.1:${port}` }, { isUp: false });
  await expect(client.slot('demo', { tenant: 'a' }, { timeoutMs: 50 })).rejects.toMatchObject({ kind: 'timeout' });
});
