import { deflateSync, gzipSync } from 'node:zlib';
import { framed } from '../../../test/helpers/h2-client.ts';
import { range } from '../../tables/figures.ts';
import { type Attack, type Attacker, crowd, FIXED_MS } from '../attack.ts';
import { CallBatch } from '../calls.ts';
import { DOMAIN_FIELD, descriptor, field, repeated } from '../messages.ts';

/** Slightly less than the longest message that the service accepts. */
const LARGE_BYTES = 4_000_000;

const emptyDescriptors = repeated(LARGE_BYTES / 2, field(2, Buffer.alloc(0)));
const emptyEntries = descriptor(repeated(LARGE_BYTES / 2, field(1, Buffer.alloc(0))));
const unknownFields = repeated(LARGE_BYTES / 2, Buffer.of(15 << 3, 0));
const longDomain = field(1, Buffer.alloc(LARGE_BYTES, 'd'));

const gzip = { 'grpc-encoding': 'gzip' } as const;

/** A compressed message, and the header fields of its call. */
const gzipped = (message: Buffer) => ({ body: framed(gzipSync(message), 1), fields: gzip });

interface Burst {
  readonly body: Buffer;
  readonly fields: Readonly<Record<string, string>>;
  /** Whether the requests are complete. */
  readonly isEnd: boolean;
  readonly calls: number;
}

/** Sends some calls together, and keeps the connection open. */
const burst =
  (make: () => Burst): Attack['prepare'] =>
  () => {
    const { calls, ...shape } = make();
    const batch = new CallBatch(shape, 1);
    return async (attacker: Attacker) => {
      const client = await attacker.http2();
      for (let call = 0; call < calls; call++) await batch.send(client);
      await attacker.sleep(2_000);
      await client.untilEnded(shape.isEnd ? calls : 0);
    };
  };

/** Repeats health checks on this number of connections, as many at a time as a connection's window takes. */
const healthChecks =
  (connections: number): Attack['prepare'] =>
  () => {
    const shape = {
      body: framed(gzipSync(field(1, Buffer.from('ratelimit'))), 1),
      fields: { ...gzip, ':path': '/grpc.health.v1.Health/Check' },
    };
    const batches = range(connections).map(() => new CallBatch(shape, 1_000));
    return (attacker) =>
      crowd(attacker, connections, async (which) => {
        const client = await attacker.http2();
        while (!attacker.isOver && (await batches[which]?.send(client))) await client.untilEnded(client.begun);
      });
  };

/** Messages of a few kilobytes that unpack to megabytes. */
export const compressed: readonly Attack[] = [
  { name: 'gzip: health checks on 60 connections, a thousand at a time', prepare: healthChecks(60) },
  {
    name: 'gzip: 10 messages of 2 million empty descriptors',
    timeMs: FIXED_MS,
    prepare: burst(() => ({ ...gzipped(emptyDescriptors), isEnd: true, calls: 10 })),
  },
  {
    name: 'gzip: 30 messages of 2 million empty descriptors, requests left open',
    timeMs: FIXED_MS,
    prepare: burst(() => ({ ...gzipped(emptyDescriptors), isEnd: false, calls: 30 })),
  },
  {
    name: 'deflate: 10 messages of 2 million empty descriptors',
    timeMs: FIXED_MS,
    prepare: burst(() => ({
      body: framed(deflateSync(emptyDescriptors), 1),
      fields: { 'grpc-encoding': 'deflate' },
      isEnd: true,
      calls: 10,
    })),
  },
  {
    name: 'gzip: 10 descriptors of 2 million empty entries',
    timeMs: FIXED_MS,
    prepare: burst(() => ({ ...gzipped(emptyEntries), isEnd: true, calls: 10 })),
  },
  {
    name: 'gzip: 30 messages of 2 million unknown fields',
    timeMs: FIXED_MS,
    prepare: burst(() => ({ ...gzipped(unknownFields), isEnd: true, calls: 30 })),
  },
  {
    name: 'gzip: 100 domains of 4 MB, requests left open',
    timeMs: FIXED_MS,
    prepare: burst(() => ({ ...gzipped(longDomain), isEnd: false, calls: 100 })),
  },
  {
    name: '8 messages of 2 million empty descriptors, not compressed',
    timeMs: FIXED_MS,
    prepare: () => async (attacker) => {
      const head = new CallBatch({ body: Buffer.alloc(0) }, 1);
      const body = framed(Buffer.concat([DOMAIN_FIELD, emptyDescriptors]));
      const client = await attacker.http2();
      for (let call = 0; call < 8 && !attacker.isOver; call++) {
        const id = client.begun * 2 + 1;
        await head.send(client);
        await client.sendBody(id, body, true);
      }
      await client.untilEnded(8);
    },
  },
];
