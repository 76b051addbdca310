import { setTimeout as sleep } from 'node:timers/promises';
import { LimitExceeded, type Slot, type WeirUnavailable } from '../../client/src/index.ts';
import { until } from '../helpers/until.ts';
import { closeAll, openClient, RULES, type Service, startService, TIMEOUT_MS } from './service.ts';

/** Slots are renewed three times within this time; long, since the machine may be busy. */
const TTL_MS = 10_000;
const PATIENT = { timeoutMs: TIMEOUT_MS };
const WAITING = { ...PATIENT, maxDelayMs: 120_000 };

let service: Service;
beforeAll(async () => {
  service = await startService(RULES.replace('ttl: 2s', `ttl: ${TTL_MS}ms`));
});
afterAll(closeAll);

const open = () => openClient({ target: service.grpc });

test('a function runs with a slot that no other caller gets, and that is freed afterwards', async () => {
  const client = await open();
  const run = async (slot: Slot) => {
    expect(slot.signal.aborted).toBe(false);
    const refused = await client.slot('demo', { tenant: 'a' }, PATIENT);
    expect(refused).toMatchObject({ ok: false, retryAfterMs: expect.any(Number) });
    await expect(client.withSlot('demo', { tenant: 'a' }, () => 'never', PATIENT)).rejects.toThrow(LimitExceeded);
    return 'done';
  };
  expect(await client.withSlot('demo', { tenant: 'a' }, run, PATIENT)).toBe('done');
  expect(await client.withSlot('demo', { tenant: 'a' }, () => 'again', PATIENT)).toBe('again');
});

test('the slot is released when the function throws', async () => {
  const client = await open();
  const fail = () => {
    throw new Error('failed');
  };
  await expect(client.withSlot('demo', { tenant: 'b' }, fail, PATIENT)).rejects.toThrow('failed');
  expect(await client.withSlot('demo', { tenant: 'b' }, () => 'free', PATIENT)).toBe('free');
});

test('a slot that is released after the client was closed is free, and no other is taken', async () => {
  const client = await open();
  const held = await client.slot('demo', { tenant: 'closed' }, PATIENT);
  if (!held.ok) throw new Error('there is no slot');
  client.close();
  await expect(client.slot('demo', { tenant: 'other' }, PATIENT)).rejects.toMatchObject({ kind: 'closed' });
  await held.slot.release();
  const another = await open();
  expect(await another.withSlot('demo', { tenant: 'closed' }, () => 'free', PATIENT)).toBe('free');
});

test('a slot is renewed while it is held, and waiting callers get it in order', async () => {
  const client = await open();
  const order: string[] = [];
  const first = await client.slot('demo', { tenant: 'c' }, PATIENT);
  const run = (name: string) => client.withSlot('demo', { tenant: 'c' }, () => void order.push(name), WAITING);
  const second = run('second');
  await sleep(TTL_MS * 1.5); // without renewal it would have expired
  expect(order).toEqual([]);
  const third = run('third');
  if (!first.ok) throw new Error('the first has no slot');
  expect(first.slot.signal.aborted).toBe(false);
  await first.slot.release();
  await first.slot.release(); // changes nothing
  await Promise.all([second, third]);
  expect(order).toEqual(['second', 'third']);
});

test('a caller that gives up waiting rejects with its reason, and holds no slot', async () => {
  const client = await open();
  const held = await client.slot('demo', { tenant: 'd' }, PATIENT);
  const controller = new AbortController();
  const waiting = client.slot('demo', { tenant: 'd' }, { ...WAITING, signal: controller.signal });
  setImmediate(() => controller.abort(new Error('gave up')));
  await expect(waiting).rejects.toThrow('gave up');
  if (held.ok) await held.slot.release();
  expect(await client.withSlot('demo', { tenant: 'd' }, () => 'free', WAITING)).toBe('free');
});

test('the signal of a slot aborts when it is lost to another holder', async () => {
  const client = await open();
  const outcome = await client.slot('demo', { tenant: 'e' }, { ...PATIENT, id: 'lost' });
  if (!outcome.ok) throw new Error('no slot');
  const other = await open();
  await until('the slot is taken by another holder', async () => {
    await other.limit('demo', { tenant: 'e', request_id: 'lost' }, { hits: -1 }); // frees it as an operator would
    return (await other.slot('demo', { tenant: 'e' }, PATIENT)).ok; // unless a renewal was faster
  });
  await until('the slot is lost', () => outcome.slot.signal.aborted);
  expect(String(outcome.slot.signal.reason)).toContain('slot lost has expired');
});

test('slots over HTTP are refused with the advice to use gRPC', async () => {
  const client = await openClient({ target: service.http });
  const error: WeirUnavailable = await client.slot('demo', { tenant: 'f' }).then(
    () => new Error('no error'),
    (thrown) => thrown,
  );
  expect(error).toMatchObject({ kind: 'unimplemented', message: expect.stringContaining('needs gRPC') });
});
