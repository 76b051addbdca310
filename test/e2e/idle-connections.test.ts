import '../helpers/realm.ts';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { startEnvoy } from '../helpers/envoy.ts';
import { call, openRaw } from '../helpers/h2-client.ts';
import { startH2 } from '../helpers/h2-server.ts';
import { overloadOf } from '../helpers/overload.ts';
import { until } from '../helpers/until.ts';
import { WatchedMemory } from '../helpers/watched-memory.ts';

/** 48 connections fit. */
const MEMORY_BYTES = 1024 * 1024;
/** More than half of them are in use, so that idle ones go before new ones. */
const IN_USE = 30;
const NEW = 24;
const ROUNDS = 30;
/** The listener of envoy.yaml that refuses requests whose call fails. */
const FAILS_CLOSED = '10001';
/** Connections are checked every 5 ms, and judged once a second of the service's clock. */
const connections = { maxCount: 5_000, maxAgeMs: 0, maxAgeGraceMs: 0, keepaliveTimeMs: 0, keepaliveTimeoutMs: 50 };

afterEach(() => jest.restoreAllMocks());

test('Envoy loses no call while its idle connections are ended again and again for new ones', async () => {
  let nowMs = 0;
  jest.spyOn(performance, 'now').mockImplementation(() => nowMs);
  const memory = new WatchedMemory(MEMORY_BYTES);
  const server = await startH2({ overload: overloadOf({ memory }), connections });
  const envoy = await startEnvoy(server.port);
  const busy = await Promise.all(Array.from({ length: IN_USE }, () => openRaw(server.port)));
  const opened: Socket[] = [];
  const openMany = async (): Promise<void> => {
    for (let count = 0; count < NEW; count++) {
      const socket = connect(server.port, '127.0.0.1').on('error', () => {});
      opened.push(socket.resume());
      await once(socket, 'connect');
    }
  };
  const ask = async (): Promise<void> => expect((await envoy.get(FAILS_CLOSED, '/', 'ann')).status).toBe(200);
  try {
    for (let round = 0; round < ROUNDS; round++) {
      await ask();
      for (let checks = 0; checks < 3; checks++) {
        nowMs += 1_000;
        await sleep(10);
      }
      for (const client of busy) {
        client.send(call(2 * round + 1));
        await client.reply(2 * round + 1);
      }
      if (round % 3 === 0) await openMany().then(ask);
      else await Promise.all([openMany(), sleep(round).then(ask)]);
      for (const socket of opened.splice(0)) socket.destroy();
      await until('they have ended', () => memory.connections < IN_USE + NEW / 2);
    }
    const [, count = 0] = /cluster\.weir\.upstream_cx_total: (\d+)/.exec(await envoy.admin('/stats')) ?? [];
    expect(Number(count)).toBeGreaterThanOrEqual(ROUNDS / 3); // each third call comes when its connection has ended
    expect(server.failures).not.toContain('TOO_MANY_CONNECTIONS');
  } finally {
    for (const socket of [...opened, ...busy.map((client) => client.socket)]) socket.destroy();
    await envoy.stop();
    await server.close(0);
  }
});
