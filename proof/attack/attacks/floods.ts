import { Flag, FrameType, Setting } from '../../../src/h2/http2/frames.ts';
import { data, frame, framed, goaway, rstStream, settings, windowUpdate } from '../../../test/helpers/h2-client.ts';
import { range } from '../../tables/figures.ts';
import { type Attack, crowd } from '../attack.ts';
import { CallBatch, type CallShape } from '../calls.ts';
import { ordinaryMessage } from '../messages.ts';

const CANCEL = 8;
/** Connections of a flood; one that the service ends is replaced. */
const CONNECTIONS = 4;
const PIECE_BYTES = 64_000;

/** Repeats these frames during the attack. */
const flood =
  (frames: Buffer, flowBytes = 0, opensStream = false): Attack['prepare'] =>
  () => {
    const count = Math.max(1, Math.floor(PIECE_BYTES / frames.length));
    const piece = Buffer.concat(range(count).map(() => frames));
    return (attacker) =>
      crowd(attacker, CONNECTIONS, async () => {
        const client = await attacker.http2();
        if (opensStream) await new CallBatch({ body: Buffer.alloc(0) }, 1).send(client);
        while (!attacker.isOver && (await client.send(piece, flowBytes * count)));
      });
  };

/** Repeats a call, with these frames after each. */
const callFlood =
  (body: Buffer, after: readonly Buffer[], how: Pick<CallShape, 'fields' | 'isEnd'> = {}): Attack['prepare'] =>
  () => {
    const batches = range(CONNECTIONS).map(() => new CallBatch({ body, ...how, after }, 200));
    return (attacker) =>
      crowd(attacker, CONNECTIONS, async (which) => {
        const client = await attacker.http2();
        while (!attacker.isOver && (await batches[which]?.send(client)));
      });
  };

const ordinary = framed(ordinaryMessage('flood'));
const padding = Buffer.concat([Buffer.of(250), Buffer.alloc(250)]);

/** Frames that cost the sender nothing. */
export const floods: readonly Attack[] = [
  { name: 'PING flood', prepare: flood(frame(FrameType.PING, 0, 0, Buffer.alloc(8))) },
  {
    name: 'PING flood that never reads',
    prepare: () => {
      const piece = Buffer.concat(range(3_000).map(() => frame(FrameType.PING, 0, 0, Buffer.alloc(8))));
      return (attacker) =>
        crowd(attacker, 50, async () => {
          const client = await attacker.http2();
          client.tcp.stopReading();
          while (!attacker.isOver && (await client.send(piece)));
        });
    },
  },
  { name: 'SETTINGS flood', prepare: flood(settings()) },
  {
    name: 'SETTINGS flood, 2,700 changes a frame',
    prepare: flood(settings(...range(2_700).map((at) => [Setting.INITIAL_WINDOW_SIZE, at] as const))),
  },
  { name: 'PRIORITY flood', prepare: flood(frame(FrameType.PRIORITY, 0, 3, Buffer.alloc(5))) },
  {
    name: 'flood of WINDOW_UPDATE, GOAWAY and unknown frames',
    prepare: flood(Buffer.concat([windowUpdate(0, 1), goaway(0), frame(0xfe, 0, 0, Buffer.alloc(100))])),
  },
  { name: 'empty DATA flood', prepare: flood(data(1, Buffer.alloc(0)), 0, true) },
  {
    name: 'flood of DATA that is only padding',
    prepare: flood(frame(FrameType.DATA, Flag.PADDED, 1, padding), padding.length, true),
  },
  { name: 'rapid reset: calls, each cancelled at once', prepare: callFlood(ordinary, [rstStream(0, CANCEL)]) },
  {
    name: 'rapid reset: requests cancelled before they are complete',
    prepare: callFlood(ordinary.subarray(0, 7), [rstStream(0, CANCEL)], { isEnd: false }),
  },
  {
    name: 'made you reset: calls, each followed by a window that is too large',
    prepare: callFlood(ordinary, [windowUpdate(0, 2 ** 31 - 1)]),
  },
  {
    name: 'calls of a method that does not exist',
    prepare: callFlood(ordinary, [], { fields: { ':path': '/no.such/Method' } }),
  },
  { name: 'messages that are not protocol buffers', prepare: callFlood(framed(Buffer.from('not a message')), []) },
  {
    name: 'new connections, each closed after one call',
    prepare: () => (attacker) => {
      const batches = range(50).map(() => new CallBatch({ body: ordinary }, 1));
      return crowd(attacker, batches.length, async (which) => {
        const client = await attacker.http2();
        await batches[which]?.send(client);
        await client.untilEnded(1);
        client.tcp.close();
      });
    },
  },
];
