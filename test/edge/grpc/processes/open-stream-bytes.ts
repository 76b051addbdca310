import { once } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { median } from '../../../../proof/tables/figures.ts';
import { Health } from '../../../../src/edge/rls/health.ts';
import { defaultMethodLimits } from '../../../../src/h2/grpc/method.ts';
import { MAX_SIDE_STREAMS } from '../../../../src/h2/grpc/router.ts';
import { FrameType } from '../../../../src/h2/http2/frames.ts';
import { Stream } from '../../../../src/h2/http2/stream.ts';
import { STREAM_BYTES } from '../../../../src/h2/http2/stream-table.ts';
import { callHead, data, framed, openRaw, type RawClient } from '../../../helpers/h2-client.ts';
import { startH2 } from '../../../helpers/h2-server.ts';
import { heapBytes } from '../../../helpers/heap.ts';

const CONNECTIONS = 10;
/** On each connection: those that are opened before, so that what is made once exists, and those that are measured. */
const FIRST = 5;
const MEASURED = MAX_SIDE_STREAMS - FIRST;
const ROUNDS = 5;

const head = (id: number, method: string, fields = {}): Buffer =>
  callHead(id, { ':path': `/grpc.${method}`, ...fields });
/** Asks for the health of a service. */
const service = (name: string): Buffer =>
  Buffer.concat([Buffer.of(0x0a, (name.length & 0x7f) | 0x80, name.length >> 7), Buffer.from(name)]);
/** No other stream's, in a message of about the length that one may have. */
const longName = (id: number): string => String(id).padEnd(defaultMethodLimits.maxMessageBytes - 3, 'x');
const allServices = Buffer.of(0x3a, 0);

/** What opens a stream that stays open when it is answered. */
const kinds = {
  watch: (id: number) => [head(id, 'health.v1.Health/Watch'), data(id, framed(service('ratelimit')), true)],
  'watch of a long name': (id: number) => [
    head(id, 'health.v1.Health/Watch'),
    data(id, framed(service(longName(id))), true),
  ],
  reflection: (id: number) => [
    head(id, 'reflection.v1.ServerReflection/ServerReflectionInfo', { 'grpc-timeout': '1H', 'grpc-encoding': 'gzip' }),
    data(id, framed(allServices)),
  ],
} as const;

async function openOn(client: RawClient, ids: readonly number[], open: (id: number) => readonly Buffer[]) {
  for (const id of ids) client.send(...open(id));
  for (const id of ids) await client.find(({ type, streamId }) => streamId === id && type === FrameType.DATA);
  (client.frames as unknown[]).length = 0; // the client's memory is not of interest
}

async function close({ socket }: RawClient): Promise<void> {
  socket.destroy();
  if (!socket.closed) await once(socket, 'close');
}

let charged = 0;
const charge = Stream.prototype.charge;
Stream.prototype.charge = function (bytes) {
  charged += bytes;
  charge.call(this, bytes);
};

/** Bytes that an open stream takes, inside the heap and beside it, and those that it is charged. */
interface Cost {
  readonly heap: number;
  readonly charged: number;
}

async function costIn(port: number, open: (id: number) => readonly Buffer[]): Promise<Cost> {
  const clients = await Promise.all(Array.from({ length: CONNECTIONS }, () => openRaw(port)));
  const ids = Array.from({ length: FIRST + MEASURED }, (_, at) => 1 + 2 * at);
  for (const client of clients) await openOn(client, ids.slice(0, FIRST), open);
  const before = { heap: heapBytes(), charged };
  for (const client of clients) await openOn(client, ids.slice(FIRST), open);
  const count = CONNECTIONS * MEASURED;
  const cost = {
    heap: (heapBytes() - before.heap) / count,
    charged: STREAM_BYTES + (charged - before.charged) / count,
  };
  for (const client of clients) await close(client);
  for (let turn = 0; turn < 10; turn++) await nextTurn(); // the server closes its ends
  return cost;
}

/** Prints what each kind of stream takes and is charged: the median of several rounds. */
async function measure(): Promise<void> {
  const health = new Health(() => ({ ready: true, reasons: [] }));
  const server = await startH2({ health });
  const costs: Record<string, Cost> = {};
  for (const [kind, open] of Object.entries(kinds)) {
    const rounds: Cost[] = [];
    while (rounds.length < ROUNDS) rounds.push(await costIn(server.port, open));
    costs[kind] = { heap: median(rounds.map(({ heap }) => heap)), charged: median(rounds.map((one) => one.charged)) };
  }
  console.log(JSON.stringify(costs));
  health.close();
  await server.close(0);
}
void measure();
