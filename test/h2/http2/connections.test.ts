import '../../helpers/realm.ts';
import { once } from 'node:events';
import { connect } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { FrameType, PREFACE } from '../../../src/h2/http2/frames.ts';
import { encodeFields } from '../../../src/h2/http2/hpack/encode.ts';
import { OK } from '../../helpers/grpc-server.ts';
import { call, callFields, callHead, data, frame, framed, message, settings } from '../../helpers/h2-client.ts';
import { type H2Server, startH2 } from '../../helpers/h2-server.ts';
import { heapBytes } from '../../helpers/heap.ts';
import { overloadOf } from '../../helpers/overload.ts';
import { until } from '../../helpers/until.ts';

const CONNECTIONS = 2_000;
const CONCURRENT = 100;
/** What connections leave behind grows in each round, what the compiler of V8 does not. */
const ROUNDS = 4;
/** Maximum memory that remains after a round, including the test's own, about 100 octets for each connection. */
const MAX_GROWTH_BYTES = 300_000;

const overload = overloadOf();
let server: H2Server;
beforeAll(async () => {
  server = await startH2({
    overload,
    service: {
      async shouldRateLimit(_request, _caller, reply) {
        await nextTurn(); // the client may have gone by then
        reply({ response: OK });
      },
    },
  });
});
afterAll(() => server.close(0));

/** Octets that clients send before they disconnect. */
const greeting = Buffer.concat([PREFACE, settings()]);
const endings: readonly Buffer[] = [
  Buffer.alloc(0),
  PREFACE.subarray(0, 10),
  greeting,
  Buffer.concat([greeting, call(1)]),
  Buffer.concat([greeting, callHead(1), data(1, framed(message).subarray(0, 9))]),
  Buffer.concat([greeting, callHead(1), data(1, framed(message)).subarray(0, 15)]),
  Buffer.concat([greeting, frame(FrameType.HEADERS, 0, 1, encodeFields(callFields()))]),
  Buffer.concat([
    greeting,
    callHead(1, { ':path': '/grpc.health.v1.Health/Watch' }),
    data(1, framed(Buffer.alloc(0)), true),
  ]),
  Buffer.concat([greeting, call(1), call(3), frame(FrameType.PING, 0, 0)]), // a PING without its payload
];

/** Connects, sends its part and disconnects, with or without an orderly end. */
async function comeAndGo(at: number): Promise<void> {
  const localAddress = `127.0.0.${2 + (at % 100)}`; // so that there are enough ports
  const socket = connect({ host: '127.0.0.1', port: server.port, localAddress }).on('error', () => {});
  const part = endings[at % endings.length] ?? Buffer.alloc(0);
  await once(socket, 'connect');
  if (part.length > 0) {
    socket.write(part.subarray(0, 1));
    await once(socket, 'data'); // the server's SETTINGS
  }
  socket.resume().write(part.subarray(1));
  const closed = once(socket, 'close');
  if (Math.floor(at / endings.length) % 2 === 0) socket.end();
  else {
    await nextTurn();
    socket.resetAndDestroy();
  }
  await closed;
}

async function bytesAfter(connections: number): Promise<number> {
  for (let first = 0; first < connections; first += CONCURRENT)
    await Promise.all(Array.from({ length: CONCURRENT }, (_, at) => comeAndGo(first + at)));
  await until('the server has noticed the last ends', () => overload.memory.connections === 0);
  for (let turns = 0; turns < 10; turns++) await nextTurn();
  return heapBytes();
}

test(`${CONNECTIONS} opened and closed connections leave nothing behind`, async () => {
  let before = await bytesAfter(1_000);
  let growth = Number.POSITIVE_INFINITY;
  for (let round = 0; round < ROUNDS && growth >= MAX_GROWTH_BYTES; round++) {
    const after = await bytesAfter(CONNECTIONS);
    growth = after - before;
    before = after;
  }
  expect(growth).toBeLessThan(MAX_GROWTH_BYTES);
});
