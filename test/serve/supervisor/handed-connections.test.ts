import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { HandedConnections, MAX_ON_THE_WAY, type Taker } from '../../../src/serve/supervisor/handed-connections.ts';
import { until } from '../../helpers/until.ts';

const AT = 'the door';
const ADDRESS = { host: '127.0.0.1', port: 0 };

/** A worker that answers only if the test says so. */
class FakeWorker implements Taker {
  readonly numbers: number[] = [];
  readonly connections: (Socket | undefined)[] = [];

  send(message: Parameters<Taker['send']>[0], connection?: Socket): void {
    if (message.kind !== 'connection') return;
    this.numbers.push(message.number);
    this.connections.push(connection);
  }
}

const clients: Socket[] = [];
afterEach(() => {
  for (const client of clients.splice(0)) client.destroy();
});

async function open(count = 2) {
  const handed = new HandedConnections();
  const workers = Array.from({ length: count }, () => new FakeWorker());
  const [port = 0] = await Promise.all(workers.map((worker) => handed.listen(AT, ADDRESS, worker)));
  const counts = (): number[] => workers.map(({ numbers }) => numbers.length);
  const make = async (connections: number): Promise<void> => {
    for (let made = 0; made < connections; made++) {
      const client = connect(port, '127.0.0.1').on('error', () => {});
      clients.push(client);
      await once(client, 'connect');
    }
  };
  /** Makes connections, and waits until so many have been passed on. */
  const pass = async (connections: number, passed: number): Promise<void> => {
    await make(connections);
    await until(`${passed} connections`, () => counts().reduce((sum, one) => sum + one) === passed);
  };
  const close = (): void => {
    for (const worker of workers) handed.ended(worker);
  };
  return { handed, workers: workers as [FakeWorker, FakeWorker], port, counts, pass, make, close };
}

test('workers take turns', async () => {
  const { counts, pass, close } = await open();
  await pass(6, 6);
  expect(counts()).toEqual([3, 3]);
  close();
});

test('a worker that does not answer gets a few connections, and the other one the rest', async () => {
  const { handed, workers, counts, pass, close } = await open();
  const [, other] = workers;
  const BURST = 3 * MAX_ON_THE_WAY;
  await pass(BURST, 2 * MAX_ON_THE_WAY); // the others wait
  await until('all connections', () => {
    for (const number of other.numbers) handed.answered(number, true);
    return counts().reduce((sum, one) => sum + one) === BURST;
  });
  expect(counts()).toEqual([MAX_ON_THE_WAY, BURST - MAX_ON_THE_WAY]);
  close();
});

test('a connection that a worker has taken is closed here, and stays open for the client', async () => {
  const { handed, workers, pass, close } = await open(1);
  await pass(1, 1);
  const [worker] = workers;
  expect(worker.connections[0]?.destroyed).toBe(false);
  handed.answered(worker.numbers[0] ?? -1, true);
  expect(worker.connections[0]?.destroyed).toBe(true);
  close();
});

test('a connection that a worker does not take goes to the next one', async () => {
  const { handed, workers, counts, pass, close } = await open();
  const [one, other] = workers;
  await pass(1, 1);
  handed.leave(AT, one);
  handed.answered(one.numbers[0] ?? -1, false);
  expect(counts()).toEqual([1, 1]);
  expect(other.connections).toEqual(one.connections);
  close();
});

test('connections on their way to a worker that has ended go to another one', async () => {
  const { handed, workers, counts, pass, close } = await open();
  const [one, other] = workers;
  await pass(4, 4);
  handed.ended(one);
  expect(counts()).toEqual([2, 4]);
  expect(other.connections.every((connection) => connection?.destroyed === false)).toBe(true);
  close();
});

test('the address is closed with its last worker, and may be bound again', async () => {
  const { handed, workers, port, pass } = await open();
  await pass(3, 3);
  for (const worker of workers) handed.ended(worker);
  await Promise.all(clients.map((client) => client.closed || once(client.resume(), 'close')));
  const refused = connect(port, '127.0.0.1');
  await expect(once(refused, 'connect')).rejects.toThrow('ECONNREFUSED');
  const worker = new FakeWorker();
  expect(await handed.listen(AT, { ...ADDRESS, port }, worker)).toBe(port);
  handed.ended(worker);
});

test('an address that cannot be bound is reported to each worker', async () => {
  const { port, handed, close } = await open(1);
  const taken = { ...ADDRESS, port };
  for (const worker of [new FakeWorker(), new FakeWorker()])
    await expect(handed.listen('another door', taken, worker)).rejects.toThrow('EADDRINUSE');
  close();
});

test('each of two real workers gets 4 of 8 simultaneous connections, although one is busy after each', async () => {
  const child = spawn(process.execPath, ['--import', 'tsx', join(__dirname, '../../fixtures/two-workers.ts')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  expect(JSON.parse(await text(child.stdout))).toEqual([4, 4]);
});
