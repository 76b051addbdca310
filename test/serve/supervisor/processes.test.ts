import '../../helpers/realm.ts';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { PREFACE } from '../../../src/h2/http2/frames.ts';
import { settings } from '../../helpers/h2-client.ts';
import { until } from '../../helpers/until.ts';

import {
  clients,
  folder,
  OK,
  page,
  pidOf,
  queued,
  service,
  stats,
  untilCounted,
  untilRedisIsAlone,
  workersOf,
} from './workers.ts';

test('workers get connections evenly, even after one has been replaced', async () => {
  const weir = await service();
  const CONNECTIONS = 30;
  const shares = async (): Promise<Readonly<Record<string, number>>> => {
    const seen = weir.output().length;
    const made = clients(weir, CONNECTIONS);
    for (const one of made) await expect(one.ask('')).rejects.toThrow('domain must not be empty');
    const count: Record<string, number> = {};
    const failures = () =>
      Array.from(
        weir
          .output()
          .slice(seen)
          .matchAll(/worker (\d+): a request failed/g),
      );
    await weir.waitFor(() => failures().length === CONNECTIONS);
    for (const [, worker = ''] of failures()) count[worker] = (count[worker] ?? 0) + 1;
    for (const one of made) one.close();
    return count;
  };
  const expectEven = (spread: Readonly<Record<string, number>>, workers: readonly string[]): void => {
    expect(Object.keys(spread)).toEqual(workers);
    const most = CONNECTIONS / workers.length + 3; // a worker that is slow to accept one is skipped
    for (const count of Object.values(spread)) expect(count).toBeLessThanOrEqual(most);
  };
  expectEven(await shares(), ['1', '2', '3']);
  process.kill(pidOf(weir, 1), 'SIGKILL');
  await weir.waitFor(() => workersOf(weir).has(4));
  expectEven(await shares(), ['2', '3', '4']);
});

test('a killed worker is replaced, while calls continue and its reported counts are kept', async () => {
  const weir = await service();
  await Promise.all(clients(weir, 6).map((one) => one.ask()));
  await untilCounted(weir, 6);
  process.kill(pidOf(weir, 1), 'SIGKILL');
  await weir.waitFor(`worker 1 (process ${pidOf(weir, 1)}) exited (SIGKILL)`);
  await Promise.all(clients(weir, 6).map((one) => one.ask()));
  await weir.waitFor(() => workersOf(weir).has(4));
  await Promise.all(clients(weir, 6).map((one) => one.ask()));
  await untilCounted(weir, 18);
  const metrics = await page(weir.debugPort, '/metrics');
  expect(metrics).toContain('weir_worker_restarts_total 1\n');
  expect(metrics).toMatch(/^weir_connections [1-9]\d*$/m);
});

test('a worker killed before it takes its connections is replaced, others answer them, and SIGTERM ends the service', async () => {
  const socket = join(folder, 'weir.sock'); // on a port, a worker might be stopped before it acknowledges the probe
  const weir = await service({ WORKERS: '2', GRPC_UDS: socket });
  for (const [id, next] of [
    [1, 3],
    [3, 4],
  ] as const) {
    process.kill(pidOf(weir, id), 'SIGSTOP');
    const sockets = Array.from({ length: 6 }, () => greeted(connect(socket)));
    const untouched = sockets.filter((socket) => socket.bytesRead === 0);
    await until('three connections without an answer', () => {
      dropAnswered(untouched);
      return untouched.length === 3;
    });
    process.kill(pidOf(weir, id), 'SIGKILL');
    await weir.waitFor(`worker ${id} (process ${pidOf(weir, id)}) exited (SIGKILL)`);
    await until('an answer to each', () => {
      dropAnswered(untouched);
      return untouched.length === 0;
    });
    await weir.waitFor(() => workersOf(weir).has(next));
    for (const socket of sockets) socket.destroy();
  }
  expect(await weir.stop()).toEqual({ code: 0, signal: null });
});

function greeted(socket: Socket): Socket {
  socket.on('error', () => {}).write(Buffer.concat([PREFACE, settings()]));
  return socket;
}

/** An HTTP/2 server answers at once, so no worker has accepted a connection without a received byte. */
function dropAnswered(sockets: Socket[]): void {
  for (const socket of sockets.filter(({ bytesRead }) => bytesRead > 0)) sockets.splice(sockets.indexOf(socket), 1);
}

test('workers answer calls in flight and end when all processes receive SIGINT, as a terminal sends it', async () => {
  const weir = await service();
  const [one, other] = clients(weir, 2);
  await one?.send(queued);
  const held = other?.send(queued);
  await until('two hits', async () => (await stats(weir))['ratelimit.service.rate_limit.demo.queue.total_hits'] === 2);
  for (const pid of [weir.pid, ...workersOf(weir).values()]) process.kill(pid, 'SIGINT');
  expect(await held).toMatchObject({ overall_code: OK });
  expect(await weir.exited).toEqual({ code: 0, signal: null });
  await untilRedisIsAlone();
  expect(weir.output()).not.toContain('restarting in');
  expect(workersOf(weir).size).toBe(3);
});

test('a worker that receives SIGTERM answers its calls in flight, and is replaced', async () => {
  const weir = await service({ WORKERS: '2' });
  const [one, other] = clients(weir, 2);
  await one?.send(queued);
  const held = other?.send(queued);
  await until('two hits', async () => (await stats(weir))['ratelimit.service.rate_limit.demo.queue.total_hits'] === 2);
  for (const worker of [1, 2]) process.kill(pidOf(weir, worker), 'SIGTERM');
  expect(await held).toMatchObject({ overall_code: OK });
  await weir.waitFor(() => [3, 4].every((id) => workersOf(weir).has(id)));
  expect((await stats(weir))['ratelimit_server.ShouldRateLimit.total_requests']).toBe(2); // the last report has arrived
});
