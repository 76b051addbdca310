import { EventEmitter } from 'node:events';
import type { Replies } from '../../../src/engine/backends/backend.ts';
import { createCounterKeys } from '../../../src/engine/backends/key.ts';
import type { RedisConnection } from '../../../src/parts/redis/connect.ts';
import { createProbe } from '../../../src/parts/redis/probe.ts';

const RETRY_MS = 500;

/** A probe of a server whose replies the test gives, one after the other. */
function probed() {
  const redis = new EventEmitter() as unknown as RedisConnection; // the part that a probe uses
  const waiting: ((replies: Replies) => void)[] = [];
  const problems: string[] = [];
  const run = () => new Promise<Replies>((resolve) => waiting.push(resolve));
  const keys = createCounterKeys('');
  const probe = createProbe({
    ...{ run, redis, keys, onProblem: (reason: string) => problems.push(reason), onUsable: () => {} },
    ...{ testPlain: async () => {}, onLimited: () => {} },
  });
  return {
    ...{ probe, problems, redis: redis as unknown as EventEmitter },
    asked: () => waiting.length,
    /** Answers the latest request. */
    async answer(reason?: string): Promise<void> {
      waiting.at(-1)?.([reason === undefined ? ({ code: 'OK' } as never) : { code: 'UNAVAILABLE', reason }]);
      await Promise.resolve();
      await Promise.resolve();
    },
  };
}

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

test('a call that is refused while the probe runs makes it run again', async () => {
  const { probe, redis, asked, answer } = probed();
  redis.emit('ready');
  probe.refused();
  jest.advanceTimersByTime(2 * RETRY_MS); // no answer to the probe yet
  expect(asked()).toBe(1);
  await answer('redis: OOM command not allowed');
  expect(probe.problem()).toBe('OOM command not allowed');
  jest.advanceTimersByTime(RETRY_MS);
  expect(asked()).toBe(2);
  await answer();
  expect(probe.problem()).toBeUndefined();
  probe.refused();
  jest.advanceTimersByTime(RETRY_MS);
  expect(asked()).toBe(3);
  redis.emit('ready');
  await answer(); // maybe from before the new connection
  jest.advanceTimersByTime(RETRY_MS);
  expect(asked()).toBe(4);
});

test.each([
  'redis: the circuit is open: no reply within 15 ms',
  'redis: too many requests wait: no reply within 15 ms',
  'redis: no reply within 15 ms: this process was 900 ms late',
])('a call that this process gave up itself shows nothing about the server: %s', async (reason) => {
  const { probe, problems, redis, asked, answer } = probed();
  redis.emit('ready');
  await answer();
  redis.emit('ready');
  await answer(reason);
  expect([probe.problem(), problems]).toEqual([undefined, []]);
  jest.advanceTimersByTime(RETRY_MS);
  expect(asked()).toBe(3);
});

test('a refusal behind an open circuit counts as a refusal', async () => {
  const { probe, redis, answer } = probed();
  redis.emit('ready');
  await answer('redis: the circuit is open: READONLY You cannot write');
  expect(probe.problem()).toBe('READONLY You cannot write');
});

test('what could not be counted is not reported any longer than scripts are missing', async () => {
  const { probe, redis, asked, answer } = probed();
  redis.emit('ready');
  await answer();
  probe.lacks('usage needs a script'); // of a call that began before scripts ran again
  expect(probe.problem()).toBe('usage needs a script');
  jest.advanceTimersByTime(RETRY_MS);
  expect(asked()).toBe(2);
  await answer();
  expect(probe.problem()).toBeUndefined();
});
