import '../../helpers/realm.ts';
import { status } from '@grpc/grpc-js';
import type { RlsService } from '../../../src/edge/rls/service.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import type { CallQueue, PendingCall } from '../../../src/h2/bounds/call-queue.ts';
import { MAX_SIDE_STREAMS } from '../../../src/h2/grpc/router.ts';
import { ErrorCode } from '../../../src/h2/http2/errors.ts';
import { createReservations } from '../../../src/parts/holds/reservations.ts';
import { createKuadrantLimits } from '../../../src/parts/kuadrant/limits.ts';
import { hostKuadrant } from '../../../src/parts/kuadrant/offer.ts';
import { createKuadrantService } from '../../../src/parts/kuadrant/service.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { extrasOf } from '../../helpers/extras.ts';
import { type Gate, gate } from '../../helpers/gate.ts';
import { OK } from '../../helpers/grpc-server.ts';
import { callHead, data, framed, openRaw, type RawClient, rstStream } from '../../helpers/h2-client.ts';
import { type H2Server, startH2 } from '../../helpers/h2-server.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { overloadOf } from '../../helpers/overload.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { until } from '../../helpers/until.ts';

/** Memory charged for a call besides its message. */
const CALL_BYTES = 8_192;

const RESERVE = '/kuadrant.service.ratelimit.v1.RateLimitService/Reserve';
const SHED = { code: status.RESOURCE_EXHAUSTED, details: 'not now' };

/** A domain, and a descriptor with one entry. */
const message = Buffer.concat([
  Buffer.from('0a0464656d6f', 'hex'),
  Buffer.from('120c0a0a', 'hex'),
  Buffer.from('0a04757365721202', 'hex'),
  Buffer.from('6d65', 'hex'),
]);
const undecodable = Buffer.of(0x0a);

/** A queue that runs calls only on command. */
function heldQueue() {
  const waiting: PendingCall[] = [];
  const spent: number[] = [];
  const state = { isOpen: false };
  const queue: CallQueue = {
    get length() {
      return waiting.length;
    },
    isBehind: false,
    mayRun: () => state.isOpen,
    canWait: () => true,
    spend: (units) => void spent.push(units),
    add: (call) => void waiting.push(call),
    close: () => {},
  };
  return { queue, waiting, spent, state };
}

const decider = {
  ...deciderOf(rulesFrom('domain: demo')),
  ledger: ledgerOf(createMemoryBackend(Date.now, { maxCounters: 1 })),
};
const kuadrant = createKuadrantService(createKuadrantLimits(decider, createReservations(decider)), extrasOf());

let held: ReturnType<typeof heldQueue>;
let isShedding: boolean;
let server: H2Server;
let client: RawClient;
const reserve = jest.spyOn(kuadrant, 'reserve');
const TAKEN = { response: { code: 1, reservation_id: '' } } as const;
/** Minimum charge for a decoded request, with its call, descriptor and entry. */
const REQUEST_BYTES = 2_176;
const overload = () => overloadOf({ queue: held.queue, refusal: () => (isShedding ? SHED : undefined) });
let memory: ReturnType<typeof overload>['memory'];
beforeEach(async () => {
  held = heldQueue();
  isShedding = false;
  reserve.mockClear();
  const parts = overload();
  memory = parts.memory;
  server = await startH2({ others: [hostKuadrant(async () => kuadrant)], overload: parts });
  client = await openRaw(server.port);
});
afterEach(async () => {
  client.close();
  await server.close(0);
});

const send = (streamId: number, bytes = message): void =>
  client.send(callHead(streamId, { ':path': RESERVE }), data(streamId, framed(bytes), true));
const untilWaiting = async (count: number): Promise<void> => {
  while (held.waiting.length < count) await client.settled();
};
const next = (): PendingCall => {
  const call = held.waiting.shift();
  if (!call) throw new Error('no call waits');
  return call;
};
const answered = (code: status, details = '') => ({
  'grpc-status': String(code),
  ...(details !== '' && { 'grpc-message': expect.stringContaining(details) }),
});

test('a call that decides waits for its turn, undecoded and charged, and reports its cost', async () => {
  send(1);
  await untilWaiting(1);
  expect(reserve).not.toHaveBeenCalled();
  expect(memory.bytes).toBeGreaterThanOrEqual(CALL_BYTES + message.length);
  const units = next().run(0);
  expect(units).toBeGreaterThan(1);
  expect(reserve).toHaveBeenCalledTimes(1);
  expect((await client.reply(1)).fields).toMatchObject(answered(status.OK));
});

test('a call that is not queued spends the units of all others', async () => {
  held.state.isOpen = true;
  send(1);
  expect((await client.reply(1)).fields).toMatchObject(answered(status.OK));
  expect(held.spent).toEqual([expect.any(Number)]);
});

test('a message that cannot be decoded fails in its turn', async () => {
  send(1, undecodable);
  await untilWaiting(1);
  expect(next().run(0)).toBeGreaterThan(1);
  expect((await client.reply(1)).fields).toMatchObject(answered(status.INTERNAL, 'cannot be decoded'));
});

test('with too many calls in flight, a call is refused before it is read', async () => {
  held.state.isOpen = true;
  send(1); // loads the service
  await client.reply(1);
  isShedding = true;
  send(3);
  expect((await client.reply(3)).fields).toMatchObject(answered(status.RESOURCE_EXHAUSTED, SHED.details));
  expect(reserve).toHaveBeenCalledTimes(1);
});

test('a call cancelled in the queue counts as one of its connection until it leaves the queue', async () => {
  held.state.isOpen = true;
  send(1); // loads the service
  await client.reply(1);
  held.state.isOpen = false;
  const count = MAX_SIDE_STREAMS;
  const charged = memory.bytes;
  for (let at = 0; at < count; at++) send(3 + 2 * at);
  await untilWaiting(count);
  for (let at = 0; at < count; at++) client.send(rstStream(3 + 2 * at, ErrorCode.CANCEL));
  await client.settled();
  expect(memory.bytes - charged).toBeGreaterThan(count * CALL_BYTES);
  const after = 3 + 2 * count;
  send(after);
  expect((await client.reply(after)).fields).toMatchObject(answered(status.RESOURCE_EXHAUSTED, String(count)));
  for (const call of held.waiting.splice(0)) expect(call.run(0)).toBeLessThan(1);
  held.state.isOpen = true;
  send(after + 2);
  expect((await client.reply(after + 2)).fields).toMatchObject(answered(status.OK));
  expect(reserve).toHaveBeenCalledTimes(2);
});

describe('a call whose handler is running', () => {
  let handler: Gate;
  let charged: number;
  const count = MAX_SIDE_STREAMS;
  beforeEach(async () => {
    held.state.isOpen = true;
    send(1); // loads the service
    await client.reply(1);
    charged = memory.bytes;
    handler = gate();
    reserve.mockImplementation(() => handler.passed.then(() => TAKEN));
    for (let at = 0; at < count; at++) send(3 + 2 * at);
    await client.settled();
  });
  afterEach(() => handler.open());

  test('is charged with its decoded request until it is answered', async () => {
    expect(memory.bytes - charged).toBeGreaterThan(count * (CALL_BYTES + REQUEST_BYTES));
    handler.open();
    expect((await client.reply(1 + 2 * count)).fields).toMatchObject(answered(status.OK));
    await client.settled();
    expect(memory.bytes - charged).toBeLessThan(REQUEST_BYTES);
  });

  test('still counts as one of its connection, and keeps its charge, when it is cancelled', async () => {
    for (let at = 0; at < count; at++) client.send(rstStream(3 + 2 * at, ErrorCode.CANCEL));
    await client.settled();
    expect(memory.bytes - charged).toBeGreaterThan(count * (CALL_BYTES + REQUEST_BYTES));
    const after = 3 + 2 * count;
    send(after);
    expect((await client.reply(after)).fields).toMatchObject(answered(status.RESOURCE_EXHAUSTED, String(count)));
    handler.open();
    send(after + 2);
    expect((await client.reply(after + 2)).fields).toMatchObject(answered(status.OK));
    await client.settled();
    expect(memory.bytes - charged).toBeLessThan(REQUEST_BYTES);
  });
});

test('counts work that depends on the rules in the turn of a call', async () => {
  const own = heldQueue();
  own.state.isOpen = true;
  const service: RlsService = {
    async shouldRateLimit(_, caller, reply) {
      caller.work?.add(500);
      reply({ response: OK });
    },
  };
  const other = await startH2({ service, overload: overloadOf({ queue: own.queue }) });
  const caller = await openRaw(other.port);
  caller.send(callHead(1), data(1, framed(message), true));
  await until('the work of the call', () => own.spent.length > 0);
  expect(own.spent[0]).toBeGreaterThan(500);
  caller.close();
  await other.close(0);
});
