import { gzipSync } from 'node:zlib';
import { Flag, FrameType } from '../../../src/h2/http2/frames.ts';
import { callFields, type Fields, frame, framed, rstStream, uint32 } from '../../../test/helpers/h2-client.ts';
import { encodeRequestHeaders } from '../../bench/generator/request-headers.ts';
import { range } from '../../tables/figures.ts';
import { type Attack, crowd, FIXED_MS } from '../attack.ts';
import { CallBatch, DIGITS_PLACE, digits, placesIn } from '../calls.ts';
import { field, ordinaryMessage } from '../messages.ts';

const WATCH = { ':path': '/grpc.health.v1.Health/Watch' };
const REFLECTION = { ':path': '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo' };
const CANCEL = 8;
/** Below the limit of streams on a connection. */
const MANY_STREAMS = 9_900;

/** A reflection request for the file that describes the service. The answer is about a hundred times as long. */
const whichFile = framed(field(4, Buffer.from('envoy.service.ratelimit.v3.RateLimitService')));

/** The prefix of a message of `length` bytes, and its first `sent` bytes. */
const begunMessage = (length: number, sent: number): Buffer =>
  Buffer.concat([Buffer.of(0), uint32(length), Buffer.alloc(sent, 1)]);

/** The id of a connection's stream, counted from 0. */
const streamId = (stream: number): number => 2 * stream + 1;

/** The HEADERS frames of requests, as the first such requests on a connection. */
function heads(fields: Fields, from: number, count: number): readonly Buffer[] {
  const { first, later } = encodeRequestHeaders(callFields(fields).map(([name, value]) => ({ name, value })));
  return range(count).map((at) =>
    frame(FrameType.HEADERS, Flag.END_HEADERS, streamId(from + at), at === 0 ? first : later),
  );
}

interface OpenedStreams {
  readonly connections: number;
  /** Number of streams of each connection. */
  readonly streams: number;
  readonly fields?: Fields;
}

/** Opens connections with streams whose requests begin with these bytes and do not end. */
const openStreams =
  (begin: Buffer, { connections, streams, fields = {} }: OpenedStreams): Attack['prepare'] =>
  () => {
    const batches = range(connections).map(() => new CallBatch({ body: begin, fields, isEnd: false }, 100));
    return (attacker) =>
      crowd(attacker, connections, async (which) => {
        const client = await attacker.http2();
        while (client.begun < streams && !attacker.isOver && (await batches[which]?.send(client)));
        await Promise.race([client.tcp.closed, attacker.over]);
      });
  };

/** Streams that stay open, and answers that are not read. */
export const streams: readonly Attack[] = [
  {
    name: 'health Watch of 100 names of 4 MB, gzip, each cancelled',
    timeMs: FIXED_MS,
    prepare: () => {
      const bodies = range(100).map((at) => {
        const name = Buffer.alloc(4_000_000, 'n');
        name.write(digits(at));
        return framed(gzipSync(field(1, name)), 1);
      });
      const fields = { ...WATCH, 'grpc-encoding': 'gzip' };
      return async (attacker) => {
        const client = await attacker.http2();
        for (const body of bodies) {
          const id = client.begun * 2 + 1;
          await new CallBatch({ body, fields }, 1).send(client);
          await attacker.sleep(20);
          await client.send(rstStream(id, CANCEL));
        }
      };
    },
  },
  {
    name: 'health Watch of distinct names on 9,900 streams of 4 connections',
    prepare: () => {
      const body = framed(field(1, Buffer.from(`${DIGITS_PLACE}${'n'.repeat(100)}`)));
      const batches = range(4).map(() => new CallBatch({ body, fields: WATCH, digitsAt: placesIn(body) }, 100));
      return (attacker) =>
        crowd(attacker, batches.length, async (which) => {
          const client = await attacker.http2();
          while (client.begun < MANY_STREAMS && !attacker.isOver && (await batches[which]?.send(client)));
          await Promise.race([client.tcp.closed, attacker.over]);
        });
    },
  },
  {
    name: 'reflection: 30 connections that never read',
    prepare: () => {
      const batches = range(30).map(() => new CallBatch({ body: whichFile, fields: REFLECTION }, 100));
      return (attacker) =>
        crowd(attacker, batches.length, async (which) => {
          const client = await attacker.http2();
          client.tcp.stopReading();
          while (client.begun < MANY_STREAMS && !attacker.isOver && (await batches[which]?.send(client)));
          await attacker.over;
        });
    },
  },
  {
    name: 'reflection: many questions on one stream, windows of 0',
    prepare: () => {
      const questions = Buffer.concat(range(200).map(() => whichFile));
      return (attacker) =>
        crowd(attacker, 4, async () => {
          const client = await attacker.http2({ settings: [[4, 0]] });
          const id = client.begun * 2 + 1;
          await new CallBatch({ body: Buffer.alloc(0), fields: REFLECTION }, 1).send(client);
          while (!attacker.isOver && (await client.sendBody(id, questions, false)));
        });
    },
  },
  {
    name: 'reflection: 9,900 streams of 3 connections that stay open',
    prepare: openStreams(Buffer.alloc(0), { connections: 3, streams: MANY_STREAMS, fields: REFLECTION }),
  },
  {
    name: 'requests with 1 byte of their message: 9,900 streams of 10 connections',
    prepare: openStreams(begunMessage(100, 1), { connections: 10, streams: MANY_STREAMS }),
  },
  {
    name: '600 connections with one open stream, after 1,000 that were refused and 4,096 that were cancelled',
    timeMs: FIXED_MS,
    prepare: () => {
      const refused = 1_000;
      const cancelled = 4_096;
      const bytes = Buffer.concat([
        ...heads({ ':path': '/no.such/Method' }, 0, refused),
        ...heads({}, refused, cancelled),
        ...heads({}, refused + 2 * cancelled, 1), // in the slot of the first
        ...range(cancelled).map((at) => rstStream(streamId(refused + at), CANCEL)),
      ]);
      return async (attacker) => {
        for (let made = 0; made < 600 && !attacker.isOver; made++) {
          const client = await attacker.http2();
          await client.send(bytes);
          await attacker.sleep(5); // without it, streams open at the same time fill the callers' memory budget
        }
        await attacker.sleep(1_000);
      };
    },
  },
  {
    name: 'requests that lack their last byte: 2,000 of 15 KB on each of 10 connections',
    prepare: openStreams(begunMessage(15_001, 15_000), { connections: 10, streams: 2_000 }),
  },
  {
    name: 'unfinished requests fill all memory for them while an honest client sends in pieces',
    timeMs: 8_000, // 256 MiB and more
    prepare: () => {
      const begin = begunMessage(15_001, 15_000);
      const batches = range(20).map(() => new CallBatch({ body: begin, isEnd: false }, 2));
      const message = framed(ordinaryMessage('in pieces'));
      return async (attacker) => {
        const honest = await attacker.http2();
        const head = new CallBatch({ body: message.subarray(0, 7), isEnd: false }, 1);
        const pieces = async (): Promise<void> => {
          const id = honest.begun * 2 + 1;
          await head.send(honest);
          await attacker.sleep(5);
          await honest.sendBody(id, message.subarray(7), true);
        };
        const attack = crowd(attacker, batches.length, async (which) => {
          const client = await attacker.http2();
          while (!attacker.isOver && (await batches[which]?.send(client)));
        });
        while (!attacker.isOver && !honest.isClosed) await pieces();
        if (honest.isClosed) attacker.fault('loses an honest connection');
        else if (honest.resets > 0) attacker.fault(`resets ${honest.resets} of ${honest.begun} honest requests`);
        await attack;
      };
    },
  },
];
