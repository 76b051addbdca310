import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  type CallQueue,
  createCallQueue,
  EXPIRY_UNITS,
  type PendingCall,
  QUESTION_UNITS,
} from '../../../src/h2/bounds/call-queue.ts';
import { LateCalls } from '../../../src/h2/bounds/late-calls.ts';
import { eventually } from '../../helpers/until.ts';

/** Work in one slice of a turn. */
const SLICE_UNITS = 256;

let nowMs: number;
let log: string[];
let queue: CallQueue;
let late: LateCalls;
beforeEach(() => {
  nowMs = 0;
  log = [];
  connection = {};
  late = new LateCalls();
  queue = createCallQueue(late, () => nowMs);
});
afterEach(() => queue.close());

let connection: object;

/** A call that takes this number of units, and logs whether it ran or expired. */
const call = (name: string, units = 1, changes: Partial<PendingCall> = {}): PendingCall => ({
  connection,
  expiresAtMs: nowMs + 10,
  dueAtMs: changes.expiresAtMs ?? nowMs + 10,
  run(_, isLate) {
    log.push(isLate ? `${name} expired` : name);
    return isLate ? EXPIRY_UNITS : units;
  },
  ...changes,
});

test('runs a call immediately while this turn has work left', async () => {
  expect(queue.mayRun(1)).toBe(true);
  queue.spend(SLICE_UNITS - 1);
  expect(queue.mayRun(1)).toBe(true);
  queue.spend(1);
  expect(queue.mayRun(1)).toBe(false);
  await nextTurn();
  expect(queue.mayRun(1)).toBe(true);
});

test('runs as many calls per turn as fit its slice, in order of arrival', async () => {
  queue.spend(SLICE_UNITS);
  for (const name of ['a', 'b', 'c', 'd', 'e']) queue.add(call(name, (SLICE_UNITS * 3) / 4), 1);
  expect(queue.length).toBe(5);
  expect(queue.mayRun(1)).toBe(false);
  await nextTurn();
  expect(log).toEqual(['a', 'b']);
  await nextTurn();
  expect(log).toEqual(['a', 'b', 'c', 'd']);
  await nextTurn();
  expect(log).toEqual(['a', 'b', 'c', 'd', 'e']);
  expect(queue.length).toBe(0);
});

test('counts the work that a call spends while it runs', async () => {
  queue.spend(SLICE_UNITS);
  const spending = call('spending');
  const run = () => {
    queue.spend(2 * SLICE_UNITS);
    return spending.run(nowMs);
  };
  queue.add({ ...spending, run }, 1);
  queue.add(call('next'), 1);
  await nextTurn();
  expect(log).toEqual(['spending']);
  await nextTurn();
  expect(log).toEqual(['spending', 'next']);
});

test('queues a new call behind earlier ones', async () => {
  queue.spend(SLICE_UNITS);
  for (const name of ['a', 'b']) queue.add(call(name, 2 * SLICE_UNITS), 1);
  await nextTurn();
  expect(log).toEqual(['a']);
  expect(queue.mayRun(1)).toBe(false);
});

test('expires a call that has waited for too long, and runs one that is in time', async () => {
  queue.spend(SLICE_UNITS);
  queue.add(call('early'), 1);
  nowMs = 5;
  queue.add(call('late'), 1);
  nowMs = 10;
  await nextTurn();
  expect(log).toEqual(['early expired', 'late']);
});

test('never expires a call without a deadline', async () => {
  queue.spend(SLICE_UNITS);
  queue.add(call('patient', 1, { expiresAtMs: Number.POSITIVE_INFINITY }), 1);
  nowMs = 1e9;
  await nextTurn();
  expect(log).toEqual(['patient']);
});

test('handles more calls in a turn for each call that expired before it, up to nine times the slice', async () => {
  const DECIDED = SLICE_UNITS / 4;
  const waiting = (count: number): void => {
    for (let at = 0; at < count; at++) queue.add(call('decided', 4), 1);
  };
  queue.spend(SLICE_UNITS);
  waiting(10);
  nowMs = 10;
  waiting(30 * DECIDED);
  await nextTurn();
  log.length = 0;
  await nextTurn();
  expect(log).toHaveLength(DECIDED + 10 * 3);
  for (let count = 0; count < 100_000; count++) queue.canWait({ connection, expiresAtMs: -1 });
  log.length = 0;
  await nextTurn();
  expect(log).toHaveLength(9 * DECIDED);
});

test('handles no more calls for those that expire on connections with much input', async () => {
  queue.spend(SLICE_UNITS);
  for (let at = 0; at < SLICE_UNITS; at++) queue.add(call('decided', 4), 1);
  for (let count = 0; count < 1_000; count++) queue.canWait({ connection: { hasMuchInput: true }, expiresAtMs: -1 });
  await nextTurn();
  expect(log).toHaveLength(SLICE_UNITS / 4);
});

describe('connections', () => {
  test('take turns, however many calls one of them has', async () => {
    queue.spend(SLICE_UNITS);
    for (const at of [1, 2, 3]) queue.add(call(`many ${at}`), 1);
    queue.add(call('other', 1, { connection: {} }), 1);
    queue.add(call('third', 1, { connection: {} }), 1);
    await nextTurn();
    expect(log).toEqual(['many 1', 'other', 'third', 'many 2', 'many 3']);
  });

  test('get equal shares of the work, however much one call takes', async () => {
    queue.spend(SLICE_UNITS);
    const [large, small] = [{}, {}];
    for (let at = 0; at < 3; at++) queue.add(call('large', 64, { connection: large }), 64);
    for (let at = 0; at < 9; at++) queue.add(call('small', 16, { connection: small }), 16);
    await nextTurn();
    await nextTurn();
    expect(log.join(' ')).toBe('large small small small small large small small small small large small');
  });

  test('owe no more turns than one large call takes, however many costly calls they had', async () => {
    queue.add(call('cheap'), 1); // from now on, the queue knows the connection
    await nextTurn();
    for (let at = 0; at < 20; at++) queue.add(call('costly', 8_192), 8_192);
    for (let turn = 0; turn < 25; turn++) await nextTurn();
    queue.spend(SLICE_UNITS);
    queue.add(call('own'), 1);
    const other = {};
    for (let at = 0; at < 200; at++) queue.add(call('other', 1, { connection: other }), 1);
    await nextTurn();
    expect(log.slice(21).indexOf('own')).toBe(64);
  });

  test('have their calls served earliest deadline first, then in order of arrival', async () => {
    queue.spend(SLICE_UNITS);
    const deadlines = [5, 3, 9, 3, 7, 1, 5, 9, 1, 2, 8, 3];
    for (const [at, expiresAtMs] of deadlines.entries())
      queue.add(call(`${expiresAtMs} ${String(at).padStart(2, '0')}`, 1, { expiresAtMs }), 1);
    await nextTurn();
    expect(log).toEqual([...log].sort());
    expect(log).toHaveLength(deadlines.length);
  });

  test('with deadlines of 1 ms do not go before others', async () => {
    queue.spend(SLICE_UNITS);
    const other = {};
    queue.add(call('honest'), 1);
    for (const at of [1, 2, 3]) queue.add(call(`hasty ${at}`, 1, { connection: other, expiresAtMs: 1 }), 1);
    await nextTurn();
    expect(log).toEqual(['honest', 'hasty 1', 'hasty 2', 'hasty 3']);
  });
});

test('does not queue a call that would expire, judging by the time that calls have taken', async () => {
  const run = (): number => {
    nowMs += 4;
    return SLICE_UNITS;
  };
  const slow = { expiresAtMs: Number.POSITIVE_INFINITY, run };
  queue.spend(SLICE_UNITS);
  for (let at = 0; at < 50; at++) queue.add(call(`${at}`, 1, slow), 1);
  queue.add(call('other', 1, { ...slow, connection: {} }), 1);
  for (let turn = 0; turn < 30; turn++) await nextTurn(); // the average is about 4 ms
  const left = queue.length;
  expect(left).toBeGreaterThan(5);
  expect(queue.canWait({ connection, expiresAtMs: nowMs + 3 * left })).toBe(false);
  expect(queue.canWait({ connection: {}, expiresAtMs: nowMs + 3 * left })).toBe(true); // it takes its turn
  expect(queue.canWait({ connection, expiresAtMs: nowMs + 5 * left })).toBe(true);
});

test('is behind while more calls are queued than fit in a turn', () => {
  queue.spend(SLICE_UNITS);
  for (let at = 1; at < SLICE_UNITS; at++) queue.add(call(`${at}`), 1);
  expect(queue.isBehind).toBe(false);
  queue.add(call('one more'), 1);
  expect(queue.isBehind).toBe(true);
});

test('counts late calls in its turns until none is left', async () => {
  const counted: number[] = [];
  for (let at = 0; at < 100; at++) late.add(Buffer.from(`message ${at}`), (_, times) => void counted.push(times));
  queue.add(call('any'), 1);
  await eventually(() => late.size === 0);
  expect(counted).toEqual(Array(100).fill(1));
});

describe('costly calls', () => {
  const COSTLY = SLICE_UNITS + 1;

  test('run one per turn, after all others', async () => {
    for (const name of ['costly 1', 'costly 2']) queue.add(call(name, COSTLY), COSTLY);
    queue.add(call('cheap 1'), 1);
    await nextTurn();
    expect(log).toEqual(['cheap 1', 'costly 1']);
    queue.add(call('cheap 2'), 1);
    await nextTurn();
    expect(log).toEqual(['cheap 1', 'costly 1', 'cheap 2', 'costly 2']);
  });

  test('let a small call wait for one of them, however many connections have some', async () => {
    queue.spend(SLICE_UNITS);
    for (let at = 0; at < 20; at++) queue.add(call('costly', 1_000, { connection: {} }), COSTLY);
    for (let turn = 0; turn < 5; turn++) {
      queue.add(call('small'), 1);
      await nextTurn();
      expect(log.splice(0)).toEqual(['small', 'costly']);
    }
  });

  test('of different connections take turns', async () => {
    const other = {};
    for (const at of [1, 2, 3]) queue.add(call(`many ${at}`, COSTLY), COSTLY);
    queue.add(call('other', COSTLY, { connection: other }), COSTLY);
    for (let turn = 0; turn < 4; turn++) await nextTurn();
    expect(log).toEqual(['many 1', 'other', 'many 2', 'many 3']);
  });

  test('include every call of a method whose calls may all be costly', async () => {
    for (const name of ['find 1', 'find 2']) queue.add(call(name, COSTLY), QUESTION_UNITS);
    queue.add(call('cheap'), 1);
    expect(queue.mayRun(QUESTION_UNITS)).toBe(false);
    await nextTurn();
    expect(log).toEqual(['cheap', 'find 1']);
    await nextTurn();
    expect(log).toEqual(['cheap', 'find 1', 'find 2']);
  });

  test('do not delay others', () => {
    queue.add(call('costly', COSTLY), COSTLY);
    expect(queue.mayRun(1)).toBe(true);
    expect(queue.mayRun(COSTLY)).toBe(false);
  });

  test('expire together once they have waited for too long', async () => {
    for (const name of ['a', 'b', 'c']) queue.add(call(name, COSTLY), COSTLY);
    nowMs = 11;
    await nextTurn();
    expect(log).toEqual(['a expired', 'b expired', 'c expired']);
  });
});

test('keeps its order and loses nothing over many turns', async () => {
  const calls = 10_000;
  queue.spend(SLICE_UNITS);
  for (let at = 0; at < calls; at++) queue.add(call(String(at)), 1);
  await eventually(() => queue.length === 0);
  expect(log).toEqual(Array.from({ length: calls }, (_, at) => String(at)));
});
