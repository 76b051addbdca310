import { spawn } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { HandedConnections, MAX_HOLD_MS } from '../../../src/serve/supervisor/handed-connections.ts';

type WorkerProcess = Parameters<HandedConnections['track']>[0];

afterEach(() => jest.useRealTimers());

/** A worker process as seen by Node's cluster module, and its accepted connections. */
class FakeProcess extends EventEmitter {
  connected = true;
  readonly sent: number[] = [];
  readonly read: number[] = [];

  constructor() {
    super();
    this.on('internalMessage', ({ ack }) => this.read.push(ack));
  }

  send({ seq }: { seq: number }): boolean {
    this.sent.push(seq);
    return true;
  }
}

function trackTwo() {
  jest.useFakeTimers();
  const connections = new HandedConnections(() => jest.now());
  const [one, other] = [new FakeProcess(), new FakeProcess()];
  const track = (child: FakeProcess) => connections.track(child as unknown as WorkerProcess);
  const [end] = [track(one), track(other)];
  let closed = 0;
  const hand = (child: FakeProcess, seq: number) =>
    (child.send as (...args: unknown[]) => void)({ seq }, { close: () => closed++ });
  const acknowledge = (child: FakeProcess, ack: number, accepted = true) =>
    child.emit('internalMessage', { ack, accepted });
  return { one, other, end, hand, acknowledge, closed: () => closed };
}

test('an acknowledgement is read at once if nothing older is unacknowledged', () => {
  const { one, hand, acknowledge } = trackTwo();
  hand(one, 1);
  acknowledge(one, 1);
  expect([one.sent, one.read]).toEqual([[1], [1]]);
});

test('a worker that acknowledges first gets no connection until the other one has acknowledged, too', () => {
  const { one, other, hand, acknowledge } = trackTwo();
  hand(one, 1);
  hand(other, 2);
  acknowledge(other, 2);
  expect(other.read).toEqual([]);
  acknowledge(one, 1);
  expect([one.read, other.read]).toEqual([[1], [2]]);
});

test('a connection that is passed on while an acknowledgement is read takes its turn behind the others', () => {
  const { one, other, hand, acknowledge } = trackTwo();
  one.once('internalMessage', () => hand(one, 3));
  hand(one, 1);
  hand(other, 2);
  acknowledge(one, 1);
  acknowledge(one, 3);
  expect(one.read).toEqual([1]);
  acknowledge(other, 2);
  expect([one.read, other.read]).toEqual([[1, 3], [2]]);
});

test('a hanging worker is waited for once, and its late acknowledgement is read at once', () => {
  const { one, other, hand, acknowledge } = trackTwo();
  hand(one, 1);
  hand(other, 2);
  acknowledge(other, 2);
  jest.advanceTimersByTime(MAX_HOLD_MS - 1);
  expect(other.read).toEqual([]);
  jest.advanceTimersByTime(1);
  expect(other.read).toEqual([2]);
  hand(other, 3);
  acknowledge(other, 3);
  expect(other.read).toEqual([2, 3]);
  hand(other, 4);
  acknowledge(one, 1);
  expect(one.read).toEqual([1]);
});

test('a connection that a worker does not accept is returned at once', () => {
  const { one, other, hand, acknowledge } = trackTwo();
  hand(one, 1);
  hand(other, 2);
  acknowledge(other, 2, false);
  expect(other.read).toEqual([2]);
});

test('connections that an ended worker has not acknowledged are closed, and not waited for', () => {
  const { one, other, end, hand, acknowledge, closed } = trackTwo();
  hand(other, 1);
  hand(one, 2);
  hand(one, 3);
  acknowledge(one, 2);
  hand(other, 4);
  acknowledge(other, 4);
  end();
  expect([one.read, closed()]).toEqual([[], 2]);
  acknowledge(other, 1);
  expect(other.read).toEqual([1, 4]);
});

test('a worker that is always slow delays the others a tenth of the time', () => {
  const { one, other, hand, acknowledge } = trackTwo();
  let heldMs = 0;
  for (let seq = 0; seq < 100; seq += 2) {
    hand(one, seq);
    hand(other, seq + 1);
    acknowledge(other, seq + 1);
    for (let ms = 0; ms < 80; ms++) {
      if (other.read.at(-1) !== seq + 1) heldMs++;
      jest.advanceTimersByTime(1);
    }
    acknowledge(one, seq);
    expect(other.read).toHaveLength(seq / 2 + 1);
  }
  expect(heldMs).toBeGreaterThan(MAX_HOLD_MS);
  expect(heldMs).toBeLessThan(MAX_HOLD_MS + (50 * 80) / 8);
});

test('an acknowledgement of a worker without a channel passes no further connection to it', () => {
  const { one, other, hand, acknowledge, closed } = trackTwo();
  hand(one, 1);
  hand(other, 2);
  acknowledge(other, 2);
  other.connected = false;
  acknowledge(one, 1);
  expect([one.read, other.read, closed()]).toEqual([[1], [], 1]);
});

test('other messages are passed on', () => {
  const { one, hand } = trackTwo();
  hand(one, 1);
  const seen = jest.fn();
  one.on('internalMessage', seen).on('message', seen);
  one.emit('internalMessage', { act: 'listening' });
  one.emit('message', { kind: 'report' });
  expect(seen).toHaveBeenCalledTimes(2);
});

test('each of two real workers gets 4 of 8 simultaneous connections, although one is busy after each', async () => {
  const child = spawn(process.execPath, ['--import', 'tsx', join(__dirname, '../../fixtures/two-workers.ts')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  expect(JSON.parse(await text(child.stdout))).toEqual([4, 4]);
});
