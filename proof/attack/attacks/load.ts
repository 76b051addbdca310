import { writeFileSync } from 'node:fs';
import { type Fields, framed } from '../../../test/helpers/h2-client.ts';
import { range } from '../../tables/figures.ts';
import { type Attack, crowd } from '../attack.ts';
import { CallBatch } from '../calls.ts';
import { get, readPage } from '../http1.ts';
import { descriptor, entry, field, ordinaryMessage, repeated, request } from '../messages.ts';

interface OpenLoop {
  readonly connections: number;
  /** Number of calls that are written together. */
  readonly inABatch: number;
  readonly fields?: Fields;
}

/** Sends calls as fast as the service reads them from the sockets, without waiting for answers. */
const openLoop =
  (message: Buffer, { connections, inABatch, fields = {} }: OpenLoop): Attack['prepare'] =>
  () => {
    const batches = range(connections).map(() => new CallBatch({ body: framed(message), fields }, inABatch));
    return (attacker) =>
      crowd(attacker, connections, async (which) => {
        const client = await attacker.http2();
        while (!attacker.isOver && (await batches[which]?.send(client))) await client.untilEnded(client.begun - 5_000);
      });
  };

/** Requests a page on each connection, again after each answer. */
const pages =
  (path: string, connections: number): Attack['prepare'] =>
  () =>
  (attacker) =>
    crowd(attacker, connections, async () => {
      await readPage(attacker, attacker.ports.debug, get(path));
    });

/**
 * A list of many lines, the last ones indented by tabs, for each of which the reader fixes the file and parses it
 * again.
 */
const slowRules = (): string =>
  `domain: shop\ndescriptors: [\n${'  {key: a},\n'.repeat(40_000)}${'\t{key: a},\n'.repeat(300)}]\n`;

const many = (descriptors: number, entries: number): Buffer =>
  request(
    range(descriptors).map((at) =>
      descriptor(entry('user', `name-${at}`), ...range(entries - 1).map((next) => entry(`key-${next}`, 'value'))),
    ),
  );

/** A batch of requests in one call. */
const together = (requests: number, descriptors: number, entries: number): Buffer =>
  repeated(requests, field(1, many(descriptors, entries)));

const batch: Fields = { ':path': '/weir.v1.Batch/Decide', 'x-weir-detail': '1' };

/** Overload. */
export const load: readonly Attack[] = [
  {
    name: 'overload: calls of 100 descriptors on 20 connections',
    prepare: openLoop(many(100, 1), { connections: 20, inABatch: 10 }),
  },
  {
    name: 'overload: small calls on 20 connections',
    prepare: openLoop(ordinaryMessage('overload'), { connections: 20, inABatch: 100 }),
  },
  {
    name: 'overload: calls of 256 descriptors of 64 entries on 4 connections',
    prepare: openLoop(many(256, 64), { connections: 4, inABatch: 1 }),
  },
  {
    name: 'overload: batches of 256 requests, with detail',
    prepare: openLoop(together(256, 2, 1), { connections: 20, inABatch: 1, fields: batch }),
  },
  {
    name: 'overload: batches of 32 requests of 16 descriptors of 20 entries',
    prepare: openLoop(together(32, 16, 20), { connections: 4, inABatch: 1, fields: batch }),
  },
  {
    name: '/metrics on 100 connections that never read, 1,000 requests each',
    prepare: () => {
      const piece = Buffer.concat(range(1_000).map(() => get('/metrics', { connection: 'keep-alive' })));
      return (attacker) =>
        crowd(attacker, 100, async () => {
          const client = await attacker.tcp(attacker.ports.debug);
          client.stopReading();
          await client.send(piece);
          await Promise.race([client.closed, attacker.over]);
        });
    },
  },
  { name: '/metrics again and again on 20 connections', prepare: pages('/metrics', 20) },
  { name: '/stats again and again on 20 connections', prepare: pages('/stats', 20) },
  {
    name: 'a rule file of 500 KB whose list is set off by tabs',
    prepare: () => {
      const rules = slowRules();
      return async (attacker) => {
        writeFileSync(attacker.rulesPath, rules);
        await attacker.over;
      };
    },
  },
];
