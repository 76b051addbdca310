import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  type CallQueue,
  createCallQueue,
  type PendingCall,
  QUESTION_UNITS,
  SLICE_UNITS,
} from '../../src/overload/call-queue.ts';
import { eventually } from '../helpers/until.ts';

let nowMs: number;
let log: string[];
let queue: CallQueue;
beforeEach(() => {
  nowMs = 0;
  log = [];
  queue = createCallQueue(10, () => nowMs);
});
afterEach(() => queue.close());

/** A call that takes so much work, and logs what becomes of it. */
const call = (name: string, units = 1): PendingCall => ({
  completeAtMs: nowMs,
  run() {
    log.push(name);
    return units;
  },
  refuse: () => log.push(`${name} refused`),
});

test('lets a call run at once while the slice of this turn has room', async () => {
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
  for (const name of ['a', 'b', 'c', 'd', 'e']) queue.add(call(name, SLICE_UNITS / 2), 1);
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
    queue.spend(SLICE_UNITS);
    return spending.run();
  };
  queue.add({ ...spending, run }, 1);
  queue.add(call('next'), 1);
  await nextTurn();
  expect(log).toEqual(['spending']);
  await nextTurn();
  expect(log).toEqual(['spending', 'next']);
});

test('lets a new call wait for those before it', async () => {
  queue.spend(SLICE_UNITS);
  for (const name of ['a', 'b']) queue.add(call(name, SLICE_UNITS), 1);
  await nextTurn();
  expect(log).toEqual(['a']);
  expect(queue.mayRun(1)).toBe(false);
});

test('refuses a call that has waited for too long, and runs one that is in time', async () => {
  queue.spend(SLICE_UNITS);
  queue.add(call('early'), 1);
  nowMs = 5;
  queue.add(call('late'), 1);
  nowMs = 11;
  await nextTurn();
  expect(log).toEqual(['early refused', 'late']);
});

test('refuses four late calls for the work of one descriptor', async () => {
  queue.spend(SLICE_UNITS);
  for (let count = 0; count < 5 * SLICE_UNITS; count++) queue.add(call(`${count}`), 1);
  nowMs = 11;
  await nextTurn();
  expect(log).toHaveLength(4 * SLICE_UNITS);
});

describe('a turn decides more', () => {
  const DECIDED = SLICE_UNITS / 4;
  const waiting = (count: number): void => {
    queue.spend(SLICE_UNITS);
    for (let at = 0; at < count; at++) queue.add(call('decided', 4), 1);
  };

  test('for each call that was refused before it, since refusals take time as well', async () => {
    waiting(4 * DECIDED);
    for (let count = 0; count < 10; count++) queue.noteRefusal();
    await nextTurn();
    expect(log).toHaveLength(DECIDED + 10 * 3);
    await nextTurn();
    expect(log).toHaveLength(2 * DECIDED + 10 * 3);
  });

  test('for each call that it refused in the queue', async () => {
    waiting(10);
    nowMs = 11;
    waiting(4 * DECIDED);
    await nextTurn();
    const inFirst = log.length;
    expect(inFirst).toBeLessThanOrEqual(10 + DECIDED);
    await nextTurn();
    expect(log).toHaveLength(inFirst + DECIDED + 10 * 3);
  });

  test('up to nine times as much', async () => {
    waiting(20 * DECIDED);
    for (let count = 0; count < 100_000; count++) queue.noteRefusal();
    await nextTurn();
    expect(log).toHaveLength(9 * DECIDED);
  });
});

describe('the queue', () => {
  const fill = (count: number): void => {
    queue.spend(SLICE_UNITS);
    for (let at = 0; at < count; at++) queue.add(call(`${at}`), 1);
  };

  test('is behind while more calls wait than fit a turn, and the first has waited for too long', () => {
    fill(SLICE_UNITS);
    nowMs = 10;
    expect(queue.isBehind).toBe(false);
    nowMs = 11;
    expect(queue.isBehind).toBe(true);
  });

  test('is not behind while all waiting calls fit a turn: the lag has another cause', () => {
    fill(SLICE_UNITS - 1);
    nowMs = 11;
    expect(queue.isBehind).toBe(false);
  });

  test('is never behind without a limit for waiting', () => {
    queue = createCallQueue(Number.POSITIVE_INFINITY, () => nowMs);
    fill(SLICE_UNITS);
    nowMs = 1e9;
    expect(queue.isBehind).toBe(false);
  });
});

test('never refuses a call without a limit for waiting', async () => {
  queue = createCallQueue(Number.POSITIVE_INFINITY, () => nowMs);
  queue.spend(SLICE_UNITS);
  queue.add(call('patient'), 1);
  nowMs = 1e9;
  await nextTurn();
  expect(log).toEqual(['patient']);
});

describe('costly calls', () => {
  const COSTLY = 1_025;

  test('run one per turn, after all others', async () => {
    for (const name of ['costly 1', 'costly 2']) queue.add(call(name, COSTLY), COSTLY);
    queue.add(call('cheap 1'), 1);
    await nextTurn();
    expect(log).toEqual(['cheap 1', 'costly 1']);
    queue.add(call('cheap 2'), 1);
    await nextTurn();
    expect(log).toEqual(['cheap 1', 'costly 1', 'cheap 2', 'costly 2']);
  });

  test('are those of a method whose calls all may be', async () => {
    for (const name of ['find 1', 'find 2']) queue.add(call(name, COSTLY), QUESTION_UNITS);
    queue.add(call('cheap'), 1);
    expect(queue.mayRun(QUESTION_UNITS)).toBe(false);
    await nextTurn();
    expect(log).toEqual(['cheap', 'find 1']);
    await nextTurn();
    expect(log).toEqual(['cheap', 'find 1', 'find 2']);
  });

  test('do not keep others from running at once', () => {
    queue.add(call('costly', COSTLY), COSTLY);
    expect(queue.mayRun(1)).toBe(true);
    expect(queue.mayRun(COSTLY)).toBe(false);
  });

  test('are refused together once they have waited for too long', async () => {
    for (const name of ['a', 'b', 'c']) queue.add(call(name, COSTLY), COSTLY);
    nowMs = 11;
    await nextTurn();
    expect(log).toEqual(['a refused', 'b refused', 'c refused']);
  });
});

test('keeps its order and loses nothing over many turns', async () => {
  const calls = 10_000;
  queue.spend(SLICE_UNITS);
  for (let at = 0; at < calls; at++) queue.add(call(String(at)), 1);
  await eventually(() => queue.length === 0);
  expect(log).toEqual(Array.from({ length: calls }, (_, at) => String(at)));
});
