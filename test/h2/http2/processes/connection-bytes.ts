import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { median } from '../../../../proof/tables/figures.ts';
import { PREFACE } from '../../../../src/h2/http2/frames.ts';
import { call, settings } from '../../../helpers/h2-client.ts';
import { startH2 } from '../../../helpers/h2-server.ts';
import { heapBytes } from '../../../helpers/heap.ts';

const CONNECTIONS = 500;
const greeting = Buffer.concat([PREFACE, settings(), call(1)]);
/** Minimum size of SETTINGS and an answer. */
const ANSWER_BYTES = 60;
/** The service's default limits, whose deadlines take memory too. */
const connections = {
  maxCount: 10_000,
  maxAgeMs: 3_600_000,
  maxAgeGraceMs: 60_000,
  keepaliveTimeMs: 7_200_000,
  keepaliveTimeoutMs: 20_000,
};

/** Heap in use, without external buffers, since Node frees those of the client's reads later. */
function objectBytes(): number {
  heapBytes(); // collects garbage
  return process.memoryUsage().heapUsed;
}

const ROUNDS = 5;

/** The median of several rounds, since other work in the process may allocate or free memory. */
async function bytesEach(port: number, calls: boolean): Promise<number> {
  const rounds: number[] = [];
  while (rounds.length < ROUNDS) rounds.push(await measureRound(port, calls));
  return median(rounds);
}

/** Opens connections that stay idle after a call. @returns bytes per connection, for both ends */
async function measureRound(port: number, calls: boolean): Promise<number> {
  const open = async (): Promise<Socket> => {
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    if (!calls) return socket.resume();
    socket.write(greeting);
    for (let read = 0; read < ANSWER_BYTES; ) read += ((await once(socket, 'data')) as [Buffer])[0].length;
    return socket.resume();
  };
  const warmUp = await Promise.all(Array.from({ length: 50 }, open));
  const before = objectBytes();
  const sockets: Socket[] = [];
  while (sockets.length < CONNECTIONS) sockets.push(...(await Promise.all(Array.from({ length: 50 }, open))));
  const bytes = (objectBytes() - before) / CONNECTIONS;
  for (const socket of [...warmUp, ...sockets]) socket.destroy();
  await Promise.all([...warmUp, ...sockets].map((socket) => socket.closed || once(socket, 'close')));
  return bytes;
}

/** Prints the bytes of an idle bare connection, and of one to the service that has made a call. */
async function measure(): Promise<void> {
  const bare = createServer((socket) => void socket.on('error', () => {}).resume());
  bare.listen(0, '127.0.0.1');
  await once(bare, 'listening');
  const bareBytes = await bytesEach((bare.address() as AddressInfo).port, false);
  bare.close();
  const server = await startH2({ connections });
  console.log(JSON.stringify({ bareBytes, callerBytes: await bytesEach(server.port, true) }));
  await server.close(0);
}
void measure();
