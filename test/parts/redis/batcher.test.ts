import type { Reply } from '../../../src/engine/backends/backend.ts';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import { PUNCTUAL } from '../../../src/engine/backends/lateness.ts';
import type { BatchRequest } from '../../../src/parts/redis/batch.ts';
import { Batcher } from '../../../src/parts/redis/batcher.ts';
import { Breaker } from '../../../src/parts/redis/breaker.ts';
import { fixedWindowOf, reservationOf, slidingWindowLogOf } from '../../helpers/limits.ts';
import { operationOf } from '../../helpers/operations.ts';

const limit = fixedWindowOf(1_000, 60_000);
const asked: BatchRequest = { operations: [operationOf({ key: 'k' as CounterKey }, limit, 1, true)], spend: 'each' }; // any text will do
const decided = { code: 'OK' } as unknown as Reply; // its contents do not matter here
const remembered = { code: 'OVER_LIMIT' } as unknown as Reply;
const late = (timeoutMs: number): Reply => ({ code: 'UNAVAILABLE', reason: `no reply within ${timeoutMs} ms` });

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask'] }); // turns of the event loop are real, time is not
});
afterEach(() => {
  jest.useRealTimers();
});

/** Advances time, and waits for the work that becomes due. */
async function advance(ms: number): Promise<void> {
  jest.advanceTimersByTime(ms);
  await turns();
}

async function turns(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** A node that answers each call on command. @param stoodShare  the part of the time in which this process does not run */
function started({ slowMs = 10_000, stoodShare = 0 } = {}) {
  const known = new Set<unknown>();
  const calls: {
    readonly requests: readonly BatchRequest[];
    readonly answer: () => void;
    readonly fail: (error: Error) => void;
  }[] = [];
  const slow: number[] = [];
  const monotonicMs = () => performance.now();
  const breaker = new Breaker(monotonicMs, () => 0.5);
  const batcher = new Batcher({
    send: (requests) =>
      new Promise((resolve, fail) => {
        const answer = () => resolve(requests.map(({ operations }) => operations.map(() => decided)));
        calls.push({ requests, answer, fail });
      }),
    recall: (operations) => (known.has(operations) ? [remembered] : undefined),
    unavailable: (reason) => ({ code: 'UNAVAILABLE', reason }),
    maxInFlight: 2,
    slowMs,
    onSlow: (tookMs) => slow.push(tookMs),
    lateness: {
      ...PUNCTUAL,
      get stoodMs() {
        return Math.floor(monotonicMs() * stoodShare);
      },
      stoodAtMs: (nowMs) => nowMs * stoodShare,
    },
    breaker: () => breaker,
    isAnswer: (error) => String(error).startsWith('Error: ERR'),
    monotonicMs,
    inNextTurn: setImmediate,
  });
  const ask = (times: number, timeoutMs: number) =>
    Array.from({ length: times }, () => Promise.resolve(batcher.run(asked, timeoutMs)).then(([answer]) => answer));
  const sizes = () => calls.map(({ requests }) => requests.length);
  return { calls, sizes, ask, breaker, batcher, known, slow };
}

test('requests of one turn of the event loop share one call, and those that arrive while two calls are in flight share the next', async () => {
  const { calls, sizes, ask } = started();
  const first = ask(3, 1_000);
  await turns();
  const second = ask(2, 1_000);
  await turns();
  const third = [...ask(1, 1_000), ...ask(1, 1_000)];
  await turns();
  const rest = ask(2, 1_000);
  await turns();
  expect(sizes()).toEqual([3, 2]);
  calls[0]?.answer();
  await turns();
  expect(sizes()).toEqual([3, 2, 4]);
  for (const { answer } of calls) answer();
  expect(await Promise.all([...first, ...second, ...third, ...rest])).toEqual(Array(9).fill(decided));
});

test('a request without a reply in time becomes unavailable, sent or not, and an unsent one is not sent later', async () => {
  const { calls, sizes, ask } = started();
  const sent = ask(1, 20);
  await turns();
  const other = ask(1, 1_000);
  await turns();
  const queued = ask(2, 15);
  await advance(14);
  expect(await Promise.race([...sent, ...queued, 'none yet'])).toBe('none yet');
  await advance(1);
  expect(await Promise.all(queued)).toEqual([late(15), late(15)]);
  await advance(5);
  expect(await Promise.all(sent)).toEqual([{ ...late(20), isUnknown: true }]);
  for (const { answer } of calls) answer();
  expect(await Promise.all(other)).toEqual([decided]);
  await turns();
  expect(sizes()).toEqual([1, 1]);
});

test.each([
  { error: 'ERR of the script', reason: 'ERR of the script', outcome: {}, which: 'that the server answered' },
  { error: "Stream isn't writeable", reason: 'not connected', outcome: {}, which: 'that was never sent' },
  { error: 'ECONNRESET', reason: 'ECONNRESET', outcome: { isUnknown: true }, which: 'whose reply was lost' },
])('whether a failed call may have counted: one $which', async ({ error, reason, outcome }) => {
  const { calls, ask } = started();
  const failed = ask(1, 1_000);
  await turns();
  calls[0]?.fail(new Error(error));
  expect(await Promise.all(failed)).toEqual([{ code: 'UNAVAILABLE', reason, ...outcome }]);
});

test('after two slow calls the circuit opens, waiting requests are refused, and one trial call tests the server', async () => {
  const { calls, sizes, ask, breaker } = started({ slowMs: 15 });
  const slow = [...ask(1, 1_000)];
  await turns();
  slow.push(...ask(1, 1_000));
  await turns();
  const queued = ask(3, 1_000);
  await advance(15);
  const refused = { code: 'UNAVAILABLE', reason: 'the circuit is open: no reply within 15 ms' };
  expect(await Promise.all([...queued, ...ask(1, 1_000)])).toEqual(Array(4).fill(refused));
  expect(breaker.state).toBe('open');
  await advance(50);
  const probe = ask(1, 1_000);
  await turns();
  expect(await Promise.all(ask(1, 1_000))).toEqual([refused]);
  calls[2]?.answer();
  expect(await Promise.all(probe)).toEqual([decided]);
  await turns();
  expect(breaker.state).toBe('closed');
  for (const { answer } of calls) answer();
  expect(await Promise.all(slow)).toEqual([decided, decided]);
  expect(sizes()).toEqual([1, 1, 1]);
});

test.each([
  { timeoutMs: 15, openAfterMs: 60, what: "for callers with Envoy's default timeout" },
  { timeoutMs: 1, openAfterMs: 60, what: 'no sooner for less patient callers' },
  { timeoutMs: 30, openAfterMs: 120, what: 'later for more patient callers' },
  { timeoutMs: 1_000, openAfterMs: 250, what: 'at the latest, however patient callers are' },
  { timeoutMs: 15, openAfterMs: 200, answeredInMs: 50, what: 'later where calls usually take long' },
])('a silent node opens the circuit after $openAfterMs ms $what', async (silence) => {
  const { calls, ask, breaker } = started({ slowMs: 250 });
  if (silence.answeredInMs !== undefined) {
    for (let call = 0; call < 50; call++) {
      const asked = ask(1, 1_000);
      await turns();
      await advance(silence.answeredInMs);
      calls.at(-1)?.answer();
      await Promise.all(asked);
      await turns();
    }
  }
  for (let call = 0; call < 2; call++) {
    ask(1, silence.timeoutMs);
    await turns();
  }
  await advance(silence.openAfterMs - 2);
  expect(breaker.state).toBe('closed');
  await advance(2);
  expect(breaker.state).toBe('open');
});

test('a request that would wait beyond its timeout is refused at once, and one with more time waits', async () => {
  const { calls, sizes, ask } = started();
  const known = ask(1, 60_000); // afterwards the expected time of a call is known: 20 ms, a fifth of the first one's
  await turns();
  await advance(100);
  calls[0]?.answer();
  await Promise.all(known);
  const first = ask(2 * 256, 60_000);
  await turns();
  const next = ask(256, 60_000);
  expect(await Promise.all(ask(3, 25))).toEqual(
    Array(3).fill({
      ...{ code: 'UNAVAILABLE', reason: 'too many requests wait: no reply within 25 ms', isOverload: true },
    }),
  );
  const patient = ask(3, 60_000);
  for (let call = 1; call < 5; call++) {
    calls[call]?.answer();
    await turns();
  }
  expect(await Promise.all([...first, ...next, ...patient])).toEqual(Array(3 * 256 + 3).fill(decided));
  expect(sizes()).toEqual([1, 256, 256, 256, 3]);
});

test('all requests are accepted while the time of a call is unknown, or while none waits', async () => {
  const { calls, ask } = started();
  const unknown = ask(4 * 256, 60_000);
  for (let call = 0; call < 4; call++) {
    await turns();
    calls[call]?.answer();
  }
  expect(await Promise.all(unknown)).toEqual(Array(4 * 256).fill(decided));
});

describe('a call whose time is over', () => {
  test.each([
    ['while this process keeps up: the store is to blame, and the circuit opens', 0, {}, 'open'],
    [
      'while this process does not run for most of that time: the store is not to blame',
      2 / 3,
      { reason: 'no reply within 30 ms: this process was 20 ms late', isOverload: true },
      'closed',
    ],
    [
      'while this process runs for most of that time: the store is to blame, and the circuit stays closed',
      1 / 3,
      {},
      'closed',
    ],
  ])('%s', async (_, stoodShare, more, state) => {
    const { ask, breaker } = started({ slowMs: 30, stoodShare });
    const unavailable = { code: 'UNAVAILABLE', reason: 'no reply within 30 ms', isUnknown: true, ...more };
    for (let call = 0; call < 2; call++) {
      const asked = ask(1, 30);
      await turns();
      await advance(30);
      expect(await Promise.all(asked)).toEqual([unavailable]);
    }
    expect(breaker.state).toBe(state);
  });

  test('is extended by the time in which this process does not run, up to a longest', async () => {
    const { batcher } = started({ stoodShare: 1 / 2 });
    const [short, long] = [20, 35].map((longestMs) => Promise.resolve(batcher.run(asked, 20, longestMs)));
    await turns();
    await advance(20);
    expect(await Promise.race([long, 'none yet'])).toBe('none yet');
    expect(await short).toMatchObject([{ code: 'UNAVAILABLE', isOverload: true }]);
    for (let at = 0; at < 8; at++) await advance(2); // of 35 ms it ran for 18
    expect(await long).toMatchObject([{ code: 'UNAVAILABLE', isOverload: true }]);
  });

  test('counts only while this process runs, until the circuit opens', async () => {
    const { ask, breaker } = started({ slowMs: 30, stoodShare: 2 / 3 });
    for (let call = 0; call < 2; call++) {
      void ask(1, 1_000);
      await turns();
    }
    await advance(80); // of which it ran for 27
    expect(breaker.state).toBe('closed');
    for (let at = 0; at < 5; at++) await advance(4);
    expect(breaker.state).toBe('open');
  });

  test('leaves a half-open circuit half open, so that the next call decides', () => {
    let nowMs = 0;
    const breaker = new Breaker(
      () => nowMs,
      () => 0.5,
    );
    for (let failure = 0; failure < 2; failure++) breaker.failed('away');
    nowMs = 1_000;
    expect(breaker.state).toBe('half_open');
    breaker.began();
    expect(breaker.refusal).toContain('the circuit is open');
    breaker.inconclusive();
    expect(breaker.refusal).toBeUndefined();
  });
});

test.each([
  { what: 'most replies come after all of their callers have given up', share: 0.8, stoodShare: 0, isSlow: true },
  { what: 'a fifth of them does', share: 0.2, stoodShare: 0, isSlow: false },
  { what: 'this process is late for them', share: 0.8, stoodShare: 0.9, isSlow: false },
])('whether a node is slow if $what: $isSlow', async ({ share, stoodShare, isSlow }) => {
  const { calls, ask, slow } = started({ stoodShare });
  for (let call = 0; call < 50; call++) {
    const asked = ask(2, 15);
    await turns();
    await advance(call % 5 < share * 5 ? 40 : 10);
    calls.at(-1)?.answer();
    await Promise.all(asked);
    await turns();
  }
  expect(slow.length > 0).toBe(isSlow);
});

/** A request with this many spends on logs of a thousand hits. */
const onLogs = (count: number): BatchRequest => ({
  operations: Array.from({ length: count }, (_, at) =>
    operationOf({ key: `log ${at}` as CounterKey }, slidingWindowLogOf(1_000), 1, true),
  ),
  spend: 'each',
});

test('after a long call, requests share a call only up to a number of long states', async () => {
  const { calls, sizes, batcher } = started({ slowMs: 100 });
  const long = Promise.resolve(batcher.run(onLogs(1), 60_000));
  await turns();
  await advance(90);
  calls[0]?.answer();
  await long;
  const answers = Array.from({ length: 4 }, () => Promise.resolve(batcher.run(onLogs(6), 60_000)));
  await turns();
  expect(sizes()).toEqual([1, 4]); // the same counters again cost little
  const others = Array.from({ length: 4 }, (_, at) => {
    const limit = reservationOf(fixedWindowOf(5));
    const key = `other ${at}` as CounterKey; // any text will do
    const operations = [1, 2, 3, 4].map((part) => operationOf({ key: `${key} ${part}` as CounterKey }, limit, 1, true));
    return Promise.resolve(batcher.run({ operations, spend: 'each' }, 60_000));
  });
  for (let call = 0; call < 6; call++) {
    await turns();
    calls[call]?.answer();
  }
  await Promise.all([...answers, ...others]);
  expect(sizes()).toEqual([1, 4, 1, 1, 1, 1]);
});

test('neither a costly call nor the one behind it opens the circuit, however long they take', async () => {
  const { calls, ask, batcher, breaker } = started({ slowMs: 15 });
  for (let round = 0; round < 2; round++) {
    const costly = Promise.resolve(batcher.run(onLogs(40), 60_000)); // the work of several ordinary calls
    await turns();
    const behind = ask(1, 60_000);
    await turns();
    await advance(1_000);
    expect(breaker.state).toBe('closed');
    for (const { answer } of calls) answer();
    await Promise.all([costly, ...behind]);
  }
  for (let call = 0; call < 2; call++) {
    void ask(1, 60_000);
    await turns();
  }
  await advance(15);
  expect(breaker.state).toBe('open');
});

test('a closed batcher leaves no timer, so that its process can end', async () => {
  const { calls, ask, batcher } = started();
  const answers = ask(2, 60_000);
  await turns();
  calls[0]?.answer();
  expect(await Promise.all(answers)).toEqual([decided, decided]);
  expect(jest.getTimerCount()).toBe(1); // for the deadline
  batcher.close();
  expect(jest.getTimerCount()).toBe(0);
});

test('a node is silent once it owes a reply for much longer than usual, until it replies', async () => {
  const { calls, ask, batcher } = started();
  const isSilent = () => batcher.isSilent(performance.now());
  const answerAfter = async (ms: number) => {
    await advance(ms);
    calls.at(-1)?.answer();
    await turns();
  };
  for (let call = 0; call < 30; call++) {
    ask(1, 1_000);
    await turns();
    await answerAfter(10);
  }
  await advance(500);
  expect(isSilent()).toBe(false); // it owes nothing
  ask(1, 1_000);
  await turns();
  await advance(38);
  expect(isSilent()).toBe(false);
  ask(1, 1_000); // a later call does not begin the wait anew
  await turns();
  await advance(5);
  expect(isSilent()).toBe(true);
  calls.at(-1)?.answer();
  await turns();
  expect(isSilent()).toBe(false);
  await advance(30);
  expect(isSilent()).toBe(false); // the other call waits since the last reply
  await advance(15);
  expect(isSilent()).toBe(true);
});

test('requests whose replies have become known while they waited are not sent', async () => {
  const { calls, sizes, ask, known } = started();
  const first = ask(1, 1_000);
  await turns();
  const second = ask(1, 1_000);
  await turns();
  const waiting = ask(1_000, 1_000);
  await turns();
  known.add(asked.operations);
  calls[0]?.answer();
  calls[1]?.answer();
  await turns();
  expect(sizes()).toEqual([1, 1]);
  expect(await Promise.all([...first, ...second])).toEqual([decided, decided]);
  expect(new Set(await Promise.all(waiting))).toEqual(new Set([remembered]));
});

test('a request that need not wait is sent, whatever is known of it', async () => {
  const { calls, sizes, ask, known } = started();
  known.add(asked.operations);
  const first = ask(1, 1_000);
  await turns();
  calls[0]?.answer();
  const second = ask(1, 1_000);
  await turns();
  calls[1]?.answer();
  expect(sizes()).toEqual([1, 1]);
  expect(await Promise.all([...first, ...second])).toEqual([decided, decided]);
});
