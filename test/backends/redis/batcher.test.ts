import { operationOf, type Reply } from '../../../src/backends/backend.ts';
import { Breaker } from '../../../src/backends/breaker.ts';
import type { CounterKey } from '../../../src/backends/key.ts';
import type { BatchRequest } from '../../../src/backends/redis/batch.ts';
import { Batcher } from '../../../src/backends/redis/batcher.ts';
import { fixedWindowOf } from '../../helpers/limits.ts';

const limit = fixedWindowOf(1_000, 60_000);
const asked: BatchRequest = { operations: [operationOf({ key: 'k' as CounterKey }, limit, 1, true)], spend: 'each' }; // any text will do
const decided = { code: 'OK' } as unknown as Reply; // what it says is of no concern here

/** A store that answers each call when it is told to. */
function started({ takesMs = 0 } = {}) {
  const calls: { readonly requests: readonly BatchRequest[]; readonly answer: () => void }[] = [];
  const breaker = new Breaker(() => performance.now());
  const batcher = new Batcher({
    send: (requests) =>
      new Promise((resolve) => {
        const answer = () => resolve(requests.map(({ operations }) => operations.map(() => decided)));
        calls.push({ requests, answer });
        if (takesMs > 0) setTimeout(answer, takesMs);
      }),
    unavailable: (reason) => ({ code: 'UNAVAILABLE', reason }),
    maxUnderWay: 2,
    slowMs: 10_000,
    breaker: () => breaker,
    isAnswer: () => false,
    monotonicMs: () => performance.now(),
  });
  const ask = (times: number, timeoutMs: number) =>
    Array.from({ length: times }, () => batcher.run(asked, timeoutMs).then(([answer]) => answer));
  return { calls, ask };
}

const untilCalls = async (calls: readonly unknown[], count: number): Promise<void> => {
  while (calls.length < count) await new Promise((resolve) => setImmediate(resolve));
};

test('what would wait for longer than it has is refused at once; who has more time waits', async () => {
  const { calls, ask } = started({ takesMs: 100 });
  await Promise.all(ask(1, 60_000)); // now it knows how long a call takes: 20 ms or more by a fifth of what it took
  const first = ask(2 * 256, 60_000);
  await untilCalls(calls, 3);
  const next = ask(256, 60_000);
  expect(await Promise.all(ask(3, 25))).toEqual(
    Array(3).fill({ code: 'UNAVAILABLE', reason: 'too many requests wait: no reply within 25 ms' }),
  );
  const patient = ask(3, 60_000);
  expect(await Promise.all([...first, ...next, ...patient])).toEqual(Array(3 * 256 + 3).fill(decided));
  expect(calls.map(({ requests }) => requests.length)).toEqual([1, 256, 256, 256, 3]);
});

test('before it knows how long a call takes, and where nothing waits, all are taken', async () => {
  const { calls, ask } = started();
  const unknown = ask(4 * 256, 60_000);
  await untilCalls(calls, 2);
  for (let call = 0; call < 4; call++) {
    await untilCalls(calls, call + 1);
    calls[call]?.answer();
  }
  expect(await Promise.all(unknown)).toEqual(Array(4 * 256).fill(decided));
});
