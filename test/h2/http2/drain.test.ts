import '../../helpers/realm.ts';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { GrpcServerOptions } from '../../../src/edge/grpc/grpc-server.ts';
import { Flag, FrameType, MAX_STREAM_ID } from '../../../src/h2/http2/frames.ts';
import { OK } from '../../helpers/grpc-server.ts';
import { call, type Frame, frame, openRaw, type RawClient } from '../../helpers/h2-client.ts';
import { type H2Server, startH2 } from '../../helpers/h2-server.ts';

/** Answers after a few turns of the event loop. */
const slowly: GrpcServerOptions['service'] = {
  async shouldRateLimit(_request, _caller, reply) {
    for (let turns = 0; turns < 10; turns++) await nextTurn();
    reply({ response: OK });
  },
};
const unlimited = { maxCount: 1_000, maxAgeMs: 0, maxAgeGraceMs: 0, keepaliveTimeMs: 0, keepaliveTimeoutMs: 0 };
const BATCH = 20;

const isDrainPing = ({ type, flags }: Frame): boolean => type === FrameType.PING && flags === 0;
const lastStreamsIn = ({ frames }: RawClient): readonly number[] =>
  frames.filter(({ type }) => type === FrameType.GOAWAY).map(({ payload }) => payload.readUInt32BE());

let server: H2Server;
afterEach(() => server.close(0));

/**
 * Sends calls continuously until the server begins to drain, further ones until GOAWAY arrives, and some after that.
 */
async function callUntilDrained(client: RawClient, begin: () => void) {
  let nextId = 1;
  const callOn = (): void => {
    for (let calls = 0; calls < BATCH; calls++, nextId += 2) client.send(call(nextId));
  };
  for (let turns = 0; !client.frames.some(isDrainPing); turns++) {
    callOn();
    await nextTurn();
    if (turns === 10) begin();
  }
  callOn();
  const lastId = nextId - 2;
  const { payload } = await client.find(isDrainPing);
  client.send(frame(FrameType.PING, Flag.ACK, 0, payload));
  callOn();
  return lastId;
}

/** Expects answers to all calls sent before the client received GOAWAY, and none to the others. */
async function expectNothingLost(client: RawClient, lastId: number): Promise<void> {
  expect((await client.ended()).code).toBe('NO_ERROR');
  expect(lastStreamsIn(client)).toEqual([MAX_STREAM_ID, lastId]);
  for (let streamId = 1; streamId <= lastId; streamId += 2)
    expect((await client.reply(streamId)).fields).toMatchObject({ 'grpc-status': '0' });
  expect(client.frames.filter(({ streamId }) => streamId > lastId)).toEqual([]);
  expect(server.failures).toEqual([]);
}

test('a closing server loses no call of a client that sends until it receives GOAWAY', async () => {
  server = await startH2({ service: slowly });
  const client = await openRaw(server.port);
  let closed: Promise<void> | undefined;
  const lastId = await callUntilDrained(client, () => {
    closed = server.close(60_000);
  });
  await expectNothingLost(client, lastId);
  await closed;
});

test('a connection that reaches its maximum age loses no call', async () => {
  server = await startH2({ service: slowly, connections: { ...unlimited, maxAgeMs: 30 } });
  const client = await openRaw(server.port);
  await expectNothingLost(client, await callUntilDrained(client, () => {}));
});

test('a connection without calls ends immediately', async () => {
  server = await startH2({ connections: { ...unlimited, maxAgeMs: 10 } });
  const client = await openRaw(server.port);
  const { payload } = await client.find(isDrainPing);
  client.send(frame(FrameType.PING, Flag.ACK, 0, payload));
  expect(await client.ended()).toEqual({ code: 'NO_ERROR', debug: '' });
  expect(lastStreamsIn(client)).toEqual([MAX_STREAM_ID, 0]);
});
