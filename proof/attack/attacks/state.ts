import { gzipSync } from 'node:zlib';
import { framed, rstStream } from '../../../test/helpers/h2-client.ts';
import { range } from '../../tables/figures.ts';
import { type Attack, type Attacker, crowd, FIXED_MS } from '../attack.ts';
import { CallBatch, DIGITS_PLACE, digits, placesIn } from '../calls.ts';
import { get, readPage } from '../http1.ts';
import { createLimit, descriptor, entry, request } from '../messages.ts';
import { defaultRules } from '../rules.ts';
import { BUDGETS } from '../verdict.ts';

const CANCEL = 8;

/** Sends calls on two connections, each with a new name. */
async function nameCalls(attacker: Attacker, message: Buffer, calls: number): Promise<void> {
  const body = framed(message);
  const batches = range(2).map(() => new CallBatch({ body, digitsAt: placesIn(body) }, 50));
  const clients = await Promise.all(batches.map(() => attacker.http2()));
  // the second connection's numbers continue after those of the first
  batches[1]?.startAt((calls / 2) * placesIn(body).length);
  await Promise.all(
    clients.map(async (client, at) => {
      while (client.begun < calls / 2 && !attacker.isOver && (await batches[at]?.send(client)));
      await Promise.race([client.untilEnded(client.begun), attacker.over]);
    }),
  );
}

/** Makes the service keep names, then scrapes them. */
const namesThenScrapes =
  (message: () => Buffer, calls: number): Attack['prepare'] =>
  () => {
    const bytes = message();
    return async (attacker) => {
      await nameCalls(attacker, bytes, calls);
      for (let scrape = 0; scrape < 5 && !attacker.isOver; scrape++)
        await readPage(attacker, attacker.ports.debug, get('/metrics'));
    };
  };

const longName = (length: number): string => DIGITS_PLACE + 'n'.repeat(length - DIGITS_PLACE.length);

/** Messages with distinct counter names that compress well. */
function* gzippedNames(messages: number, perMessage: number, length: number): Generator<Buffer> {
  for (let message = 0; message < messages; message++) {
    const descriptors = range(perMessage).map((at) => {
      const name = digits(message * perMessage + at) + 'n'.repeat(length - DIGITS_PLACE.length);
      return descriptor(entry('user', name));
    });
    yield framed(gzipSync(request(descriptors)), 1);
  }
}

/** Opens delayed calls on four connections. */
async function openHeld(attacker: Attacker, calls: number) {
  const body = framed(request([descriptor(entry('held', 'everyone'))]));
  const batches = range(4).map(() => new CallBatch({ body }, 100));
  return Promise.all(
    batches.map(async (batch) => {
      const client = await attacker.http2();
      while (client.begun < calls / 4 && !attacker.isOver && (await batch.send(client)));
      return client;
    }),
  );
}

/** Memory use by names, counters and waiting calls. */
export const state: readonly Attack[] = [
  {
    name: '25 MB of limits that callers bring, under long names, then 5 scrapes',
    timeMs: FIXED_MS,
    leavesBytes: BUDGETS.statistics + BUDGETS.counters,
    prepare: namesThenScrapes(
      () => request(range(25).map(() => descriptor(entry('name', longName(900)), createLimit(1_000_000, 3)))),
      1_100,
    ),
  },
  {
    name: '25 MB of unknown domains with long names, then 5 scrapes',
    timeMs: FIXED_MS,
    leavesBytes: BUDGETS.statistics,
    prepare: namesThenScrapes(() => request([descriptor(entry('user', 'someone'))], longName(1_000)), 25_000),
  },
  {
    name: 'gzip: 250,000 counters with names of 440 characters',
    timeMs: FIXED_MS,
    leavesBytes: BUDGETS.counters,
    prepare: () => {
      const bodies = [...gzippedNames(1_000, 250, 440)];
      return async (attacker) => {
        const client = await attacker.http2();
        for (const body of bodies) {
          if (attacker.isOver) break;
          await new CallBatch({ body, fields: { 'grpc-encoding': 'gzip' } }, 1).send(client);
          await client.untilEnded(client.begun - 50);
        }
        await Promise.race([client.untilEnded(client.begun), attacker.over]);
      };
    },
  },
  {
    name: '500,000 counters with short names',
    timeMs: FIXED_MS,
    leavesBytes: BUDGETS.counters,
    prepare: () => {
      const message = request(range(250).map(() => descriptor(entry('user', DIGITS_PLACE))));
      return (attacker) => nameCalls(attacker, message, 2_000);
    },
  },
  {
    name: '16,000 held calls, then the connections are closed',
    timeMs: FIXED_MS,
    leavesBytes: 0,
    prepare: () => async (attacker) => {
      const clients = await openHeld(attacker, 16_000);
      await attacker.sleep(1_000);
      for (const client of clients) client.tcp.close();
    },
  },
  {
    name: '16,000 held calls, each cancelled, again and again',
    prepare: () => async (attacker) => {
      const clients = await openHeld(attacker, 16_000);
      const batches = clients.map(
        () =>
          new CallBatch(
            { body: framed(request([descriptor(entry('held', 'everyone'))])), after: [rstStream(0, CANCEL)] },
            100,
          ),
      );
      await Promise.all(
        clients.map(async (client, at) => {
          const ids = range(client.begun).map((call) => call * 2 + 1);
          await client.send(Buffer.concat(ids.map((id) => rstStream(id, CANCEL))));
          while (!attacker.isOver && (await batches[at]?.send(client)));
        }),
      );
    },
  },
  {
    name: 'held calls of 100 descriptors, 9,900 on each of 2 connections',
    prepare: () => {
      const message = request([
        descriptor(entry('held', 'everyone')),
        ...range(99).map((at) => descriptor(entry('user', `name-${at}`))),
      ]);
      const body = framed(gzipSync(message), 1);
      return (attacker) =>
        crowd(attacker, 2, async () => {
          const batch = new CallBatch({ body, fields: { 'grpc-encoding': 'gzip' } }, 50);
          const client = await attacker.http2();
          while (client.begun < 9_900 && !attacker.isOver && (await batch.send(client)));
          await Promise.race([client.tcp.closed, attacker.over]);
        });
    },
  },
  {
    name: 'requests of 256 descriptors of 64 entries while Redis does not answer',
    frozenRedis: true,
    rules: defaultRules.replaceAll('requests_per_unit', 'on_store_failure: allow, requests_per_unit'),
    prepare: () => {
      const entries = range(64).map((at) => entry(`key-${at}`, 'v'));
      const message = request(range(256).map(() => descriptor(entry('user', 'someone'), ...entries.slice(1))));
      const body = framed(gzipSync(message), 1);
      return (attacker) =>
        crowd(attacker, 4, async () => {
          const batch = new CallBatch({ body, fields: { 'grpc-encoding': 'gzip' } }, 10);
          const client = await attacker.http2();
          while (!attacker.isOver && (await batch.send(client)));
        });
    },
  },
];
