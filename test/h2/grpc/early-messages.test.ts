import { setImmediate as nextTurn } from 'node:timers/promises';
import { defaultMethodLimits, type MethodLimits } from '../../../src/h2/grpc/method.ts';
import { MethodCall } from '../../../src/h2/grpc/method-call.ts';
import { sideTurns } from '../../../src/h2/http2/side-turns.ts';
import { Stream, type StreamWriter } from '../../../src/h2/http2/stream.ts';
import { framed } from '../../helpers/h2-client.ts';

/** Limits of a handler that only stores messages. */
const slicedLimits: MethodLimits = {
  ...defaultMethodLimits,
  maxMessageBytes: 65_536,
  maxEarlyMessages: Number.POSITIVE_INFINITY,
};
const message = framed(Buffer.from('hello'));

/** A call on a connection that has used up its share of each turn. */
function open(limits: MethodLimits) {
  const seen = { messages: 0, hasFailed: false };
  let unitsSpent = 0;
  const connection: StreamWriter = {
    sideStreams: 0,
    address: undefined,
    readAtMs: 0,
    unreadBytes: () => 0,
    charge: () => {},
    answer: () => {},
    sendData: () => {},
    sendEnd: () => {},
    resetStream: () => {},
    spendSide(units) {
      unitsSpent += units;
      return true;
    },
    sendHead(_stream, _block, isEnd) {
      seen.hasFailed = isEnd;
    },
  };
  const head = { path: '', timeoutMs: Infinity, encoding: 'gzip', needsDetail: false, header: () => undefined };
  const call = new MethodCall(
    {
      kind: 'bidi stream',
      path: '',
      decode: (bytes) => bytes,
      encode: () => Buffer.alloc(0),
      limits,
      handle: () => ({ message: () => void seen.messages++, end: () => {} }),
    },
    new Stream(connection, 1, 0),
    head,
  );
  const send = (bytes: Buffer): void => call.data(bytes, 0, bytes.length);
  return { seen, send, unitsSpent: () => unitsSpent };
}

const many = Buffer.concat(Array.from({ length: 100 }, () => message));

test('a call ends if it has many messages in one turn beyond the share of its connection', () => {
  const { seen, send } = open(defaultMethodLimits);
  send(many);
  expect(seen).toMatchObject({ messages: 16, hasFailed: true });
});

test('a call that has one such message in each of many turns continues', async () => {
  const { seen, send } = open(defaultMethodLimits);
  for (let count = 0; count < 50; count++) {
    send(message);
    sideTurns.wake();
    await nextTurn();
  }
  expect(seen).toMatchObject({ messages: 50, hasFailed: false });
});

test('a call whose messages are handled in slices continues, since its handler bounds them', () => {
  const { seen, send } = open(slicedLimits);
  send(many);
  expect(seen).toMatchObject({ messages: 100, hasFailed: false });
});

test('messages are spent by their size', () => {
  const { send, unitsSpent } = open(slicedLimits);
  send(framed(Buffer.alloc(0)));
  const before = unitsSpent();
  send(framed(Buffer.alloc(64_000)));
  expect(unitsSpent() - before).toBe(250 + 1_000);
});
