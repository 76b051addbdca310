import { setImmediate as nextTurn } from 'node:timers/promises';
import { type CallSource, createCallQueue, EXPIRY_UNITS } from '../../../src/h2/bounds/call-queue.ts';

/** Calls of 100 descriptors at ten times the capacity, on a clock that work alone advances. */
const CALLS_PER_MS = 25;
const HANDLING = { ms: 0.4, units: 116, estimate: 94 };
const DEADLINE_MS = 20;
const CONNECTIONS = 20;
/** Calls in the 64 KiB that a connection may send in a turn. */
const CALLS_PER_TURN = 21;
/** The service has not read anything for this time. */
const PAUSE_MS = 150;
const END_MS = 1_000;

/** @returns  calls that were answered in time, and all that were handled, in the last part of the time */
async function overload(readingMs: number) {
  let nowMs = PAUSE_MS;
  let arrived = 0;
  const counts = { inTime: 0, handled: 0 };
  const queue = createCallQueue({ size: 0, count: () => {} }, () => nowMs);
  const sockets = Array.from({ length: CONNECTIONS }, () => ({ connection: {} as CallSource, dueMs: [] as number[] }));
  const arrive = (dueMs: number, { connection }: (typeof sockets)[number]): void => {
    const expiresAtMs = nowMs + DEADLINE_MS / 2;
    nowMs += readingMs;
    const run = (_atMs = nowMs, isLate = false): number => {
      if (isLate) return EXPIRY_UNITS;
      nowMs += HANDLING.ms;
      if (nowMs < END_MS / 2) return HANDLING.units;
      counts.handled++;
      if (nowMs - dueMs <= DEADLINE_MS) counts.inTime++;
      return HANDLING.units;
    };
    if (queue.mayRun(HANDLING.estimate)) return queue.spend(run());
    const call = { connection, expiresAtMs, dueAtMs: expiresAtMs, run };
    if (queue.canWait(call)) queue.add(call, HANDLING.estimate);
  };
  while (nowMs < END_MS) {
    for (; arrived < nowMs * CALLS_PER_MS; arrived++)
      sockets[arrived % CONNECTIONS]?.dueMs.push(arrived / CALLS_PER_MS);
    for (const socket of sockets) {
      const read = socket.dueMs.splice(0, CALLS_PER_TURN);
      socket.connection.hasMuchInput = read.length >= CALLS_PER_TURN / 4;
      for (const dueMs of read) arrive(dueMs, socket);
    }
    await nextTurn();
  }
  queue.close();
  return counts;
}

test.each([0.015, 0.02, 0.025])(
  'a service that cannot handle most calls answers those that it handles in time, if it reads each in %s ms',
  async (readingMs) => {
    const { inTime, handled } = await overload(readingMs);
    expect(handled).toBeGreaterThan(0);
    expect(inTime / handled).toBeGreaterThan(0.8);
  },
);
