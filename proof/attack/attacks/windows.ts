import { gzipSync } from 'node:zlib';
import { Setting } from '../../../src/h2/http2/frames.ts';
import { framed, settings, windowUpdate } from '../../../test/helpers/h2-client.ts';
import { range } from '../../tables/figures.ts';
import { type Attack, type Attacker, crowd, FIXED_MS } from '../attack.ts';
import { CallBatch } from '../calls.ts';
import type { Http2Client } from '../http2-client.ts';
import { descriptor, entry, ordinaryMessage, request } from '../messages.ts';

/** A request with the maximum number of descriptors. */
const manyDescriptors = request(range(256).map((at) => descriptor(entry('user', String(at % 10)))));

const NO_WINDOW = { settings: [[Setting.INITIAL_WINDOW_SIZE, 0]] } as const;

/** Below the limit of streams on a connection. */
const BUFFERED_STREAMS = 9_900;

/** Opens a connection with `BUFFERED_STREAMS` answers that wait for window. */
async function openWithBufferedAnswers(attacker: Attacker): Promise<Http2Client> {
  const calls = new CallBatch({ body: framed(ordinaryMessage('window')) }, 100);
  const client = await attacker.http2(NO_WINDOW);
  while (client.begun < BUFFERED_STREAMS && (await calls.send(client)));
  await attacker.sleep(500);
  return client;
}

/** Answers that wait until the client grants window. */
export const windows: readonly Attack[] = [
  {
    name: 'no window: 9,900 requests of 256 descriptors, gzip',
    timeMs: FIXED_MS,
    prepare: () => {
      const calls = new CallBatch(
        { body: framed(gzipSync(manyDescriptors), 1), fields: { 'grpc-encoding': 'gzip' } },
        50,
      );
      return async (attacker) => {
        const client = await attacker.http2(NO_WINDOW);
        while (client.begun < BUFFERED_STREAMS && !attacker.isOver && (await calls.send(client)));
        await attacker.sleep(1_000);
      };
    },
  },
  {
    name: 'no window: an ordinary client sends 100 descriptors a call on 4 connections',
    prepare: () => {
      const message = request(range(100).map((at) => descriptor(entry('user', `name-${at}`))));
      const batches = range(4).map(() => new CallBatch({ body: framed(message) }, 10));
      return (attacker) =>
        crowd(attacker, batches.length, async (which) => {
          const client = await attacker.http2(NO_WINDOW);
          while (client.begun < BUFFERED_STREAMS && !attacker.isOver && (await batches[which]?.send(client)));
          await Promise.race([client.tcp.closed, attacker.over]);
        });
    },
  },
  {
    name: '9,900 buffered answers, then 127 KB of WINDOW_UPDATE on the connection',
    timeMs: FIXED_MS,
    prepare: () => {
      const updates = Buffer.concat(range(9_769).map(() => windowUpdate(0, 1)));
      return async (attacker) => {
        const client = await openWithBufferedAnswers(attacker);
        await client.send(updates);
        await attacker.sleep(2_000);
      };
    },
  },
  {
    name: '9,900 buffered answers, then 49 KB of SETTINGS that change the window',
    timeMs: FIXED_MS,
    prepare: () => {
      const pairs = range(2_700).map((at) => [Setting.INITIAL_WINDOW_SIZE, at % 2] as const);
      const updates = Buffer.concat(range(3).map(() => settings(...pairs)));
      return async (attacker) => {
        const client = await openWithBufferedAnswers(attacker);
        await client.send(updates);
        await attacker.sleep(2_000);
      };
    },
  },
  {
    name: '9,900 buffered answers, then windows of one byte for each stream',
    timeMs: FIXED_MS,
    prepare: () => {
      const ids = range(BUFFERED_STREAMS).map((at) => at * 2 + 1);
      const updates = Buffer.concat(ids.map((id) => windowUpdate(id, 1)));
      return async (attacker) => {
        const client = await openWithBufferedAnswers(attacker);
        await client.send(updates);
        await attacker.sleep(2_000);
      };
    },
  },
];
