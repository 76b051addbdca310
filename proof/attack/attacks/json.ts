import { range } from '../../tables/figures.ts';
import { type Attack, crowd, FIXED_MS } from '../attack.ts';
import { post, readPage } from '../http1.ts';
import { DOMAIN } from '../rules.ts';

/** Slightly less than the longest body that the service accepts. */
const LARGE_BYTES = 4_190_000;

/** A text of maximum length that repeats `unit` between `start` and `end`. */
const filled = (start: string, unit: string, end: string): Buffer => {
  const count = Math.floor((LARGE_BYTES - start.length - end.length) / unit.length);
  return Buffer.concat([Buffer.from(start), Buffer.alloc(count * unit.length, unit), Buffer.from(end)]);
};

const manyFields = (): Buffer => {
  const fields = range(300_000).map((at) => `"f${at}":1`);
  return Buffer.from(`{${fields.join(',')}}`.slice(0, LARGE_BYTES));
};

const ordinary = Buffer.from(
  JSON.stringify({ domain: DOMAIN, descriptors: [{ entries: [{ key: 'user', value: 'someone' }] }] }),
);
const held = Buffer.from(
  JSON.stringify({ domain: DOMAIN, descriptors: [{ entries: [{ key: 'held', value: 'everyone' }] }] }),
);

/** Posts a body once on each connection, at the same time. */
const posts =
  (make: () => Buffer, connections = 2): Attack['prepare'] =>
  () => {
    const request = post(make());
    return async (attacker) => {
      await Promise.all(range(connections).map(() => readPage(attacker, attacker.ports.http, request)));
    };
  };

/** Sends this on each connection, and leaves the connections open. */
const leftOpen =
  (make: () => Buffer, connections: number): Attack['prepare'] =>
  () => {
    const bytes = make();
    return (attacker) =>
      crowd(attacker, connections, async () => {
        const client = await attacker.tcp(attacker.ports.http);
        await client.send(bytes);
        await Promise.race([client.closed, attacker.over]);
      });
  };

/** JSON bodies that are cheap for the sender. */
const bodies: readonly Attack[] = [
  { name: '/json: {} 1.4 million times', prepare: posts(() => filled('{"descriptors":[', '{},', '{}]}')) },
  { name: '/json: an array where a text belongs', prepare: posts(() => filled('{"domain":[', '{},', '{}]}')) },
  { name: '/json: 300,000 unknown fields', prepare: posts(manyFields) },
  {
    name: '/json: the same field again and again',
    prepare: posts(() => filled('{', '"domain":"a",', '"domain":"a"}')),
  },
  { name: '/json: arrays in arrays', prepare: posts(() => filled('{"descriptors":', '[', '')) },
  { name: '/json: objects in objects', prepare: posts(() => filled('', '{"a":', '')) },
  { name: '/json: a number of 4 million digits', prepare: posts(() => filled('{"hits_addend":', '7', '}')) },
  { name: '/json: a text of escapes', prepare: posts(() => filled('{"domain":"', '\\u0061', '"}')) },
];

/** Incomplete requests, and requests that wait. */
const open: readonly Attack[] = [
  {
    name: '/json: 100 bodies of 4 MB that lack their last byte',
    prepare: leftOpen(() => post(Buffer.alloc(LARGE_BYTES, ' '), {}, LARGE_BYTES + 1), 100),
  },
  {
    name: '/json: 2,000 bodies of which 100 bytes come',
    prepare: leftOpen(() => post(Buffer.alloc(100, ' '), {}, LARGE_BYTES), 2_000),
  },
  {
    name: '/json: bodies in chunks of 1 byte',
    prepare: () => {
      const head = Buffer.from('POST /json HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n');
      const chunks = Buffer.alloc(60_000, '1\r\n \r\n');
      return (attacker) =>
        crowd(attacker, 4, async () => {
          const client = await attacker.tcp(attacker.ports.http);
          await client.send(head);
          while (!attacker.isOver && (await client.send(chunks)));
        });
    },
  },
  {
    name: 'HTTP/1: 4,000 connections whose headers do not end',
    prepare: leftOpen(() => Buffer.from(`GET /healthcheck HTTP/1.1\r\nx-slow: ${'h'.repeat(10_000)}`), 4_000),
  },
  {
    name: '/json: 10,000 held calls on each of 4 connections, sent at once',
    prepare: () => {
      const piece = Buffer.concat(range(100).map(() => post(held, { connection: 'keep-alive' })));
      return (attacker) =>
        crowd(attacker, 4, async () => {
          const client = await attacker.tcp(attacker.ports.http);
          for (let at = 0; at < 100 && !attacker.isOver && (await client.send(piece)); at++);
          await Promise.race([client.closed, attacker.over]);
        });
    },
  },
  {
    name: '/json: calls on 50 connections that never read',
    prepare: () => {
      const piece = Buffer.concat(range(300).map(() => post(ordinary, { connection: 'keep-alive' })));
      return (attacker) =>
        crowd(attacker, 50, async () => {
          const client = await attacker.tcp(attacker.ports.http);
          client.stopReading();
          while (!attacker.isOver && (await client.send(piece)));
        });
    },
  },
  {
    name: '/json: calls that a page of another site makes',
    prepare: () => async (attacker) => {
      const request = post(ordinary, { 'sec-fetch-site': 'cross-site', origin: 'http://attack.example' });
      for (let call = 0; call < 20 && !attacker.isOver; call++) {
        const status = await readPage(attacker, attacker.ports.http, request);
        if (status === 200 || status === 429) attacker.fault("decides calls of another site's page");
      }
    },
  },
];

export const json: readonly Attack[] = [...bodies.map((attack) => ({ ...attack, timeMs: FIXED_MS })), ...open];
