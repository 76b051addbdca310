import { readFileSync } from 'node:fs';
import type { Redis as Connection } from 'ioredis';
import type { Clock } from '../../src/base/clock.ts';
import { type Decision, type Spend, spends } from '../../src/engine/algorithms/limit.ts';
import { type RequestOperation, signedHits } from '../../src/engine/backends/backend.ts';
import type { SharedWindow } from '../../src/engine/backends/key.ts';
import { algorithmFor, type Limit } from '../../src/engine/holds/limits.ts';
import { type CalendarUnit, createCalendar } from '../../src/engine/rules/time/calendar.ts';

/** One call of the previous build on a counter. */
export interface RecordedCall {
  readonly nowMs: number;
  readonly hits: number;
  readonly answer: Decision;
  /** Time to live in ms afterwards; -1: unchanged; -2: the counter was deleted. */
  readonly ttlMs: number;
  /** The stored bytes; undefined: none. */
  readonly stored: Buffer | undefined;
}

/** The calls on one counter. */
export interface RecordedCounter {
  /** With the counter name of the present build. */
  readonly limit: Limit;
  readonly key: string;
  readonly calls: readonly RecordedCall[];
}

interface Recording {
  readonly startMs: number;
  readonly counters: readonly {
    readonly limit: { readonly alignment?: string | { readonly unit: CalendarUnit; readonly timeZone: string } };
    readonly key: string;
    readonly calls: readonly string[];
  }[];
  readonly shared: SharedWindow & { readonly key: string; readonly calls: readonly string[] };
}

const read = (name: string): string =>
  readFileSync(new URL(`../fixtures/previous-build/${name}`, import.meta.url), 'utf8');

const recording: Recording = JSON.parse(read('recording.json'));
const script = read('script.lua');

/**
 * The part of a recorded answer that this build gives as well. A sliding counter that rounds down is as good as new
 * before its last hit has left the window, which the previous build did not tell.
 */
export function sameAnswer(limit: Limit, { durationUntilResetMs, ...others }: Decision): Partial<Decision> {
  const isLater = limit.algorithm === 'sliding_window_counter' && limit.rounding === 'down';
  return isLater ? others : { durationUntilResetMs, ...others };
}

/** When the recorded calls begin. */
export const RECORDED_FROM_MS = recording.startMs;

/** Prefixes of counter names that differ from the previous build's, because the counters' states differ. */
const renamed: readonly (readonly [now: string, before: string])[] = [
  ['fixed_window.2|', 'fixed_window|'],
  ['token_bucket.2|', 'token_bucket|'],
];

/** The name with one prefix instead of the other. */
const renamedTo = (name: string, from: string, to: string): string =>
  name.startsWith(from) ? to + name.slice(from.length) : name;

/** The limit with the counter name of the previous build. */
export const previousLimit = <L extends Limit>(limit: L): L => ({
  ...limit,
  counter: renamed.reduce((name, [now, before]) => renamedTo(name, now, before), limit.counter),
});

/** Whether both builds use the same counter for the limit; otherwise each admits the limit once. */
export const sharesCounter = (limit: Limit): boolean => previousLimit(limit).counter === limit.counter;

const packed = (numbers: readonly number[]): Buffer => {
  const bytes = Buffer.alloc(numbers.length * 8);
  for (const [at, number] of numbers.entries()) bytes.writeDoubleLE(number, at * 8);
  return bytes;
};

const stateOf = (text: string): Buffer => packed(text.split(',').map(Number));

function callOf(text: string, storedOf: (text: string) => Buffer): RecordedCall {
  const [at, hits, code, before, remaining, resetMs, retryMs, delayMs, soft, ttlMs, stored = '-'] = text.split(' ');
  const answer = {
    code: code as Decision['code'], // the README lists the columns
    hitsBefore: Number(before),
    limitRemaining: Number(remaining),
    durationUntilResetMs: Number(resetMs),
    retryAfterMs: Number(retryMs),
    delayMs: Number(delayMs),
    soft: soft === '1',
  };
  return {
    nowMs: recording.startMs + Number(at),
    hits: Number(hits),
    answer,
    ttlMs: Number(ttlMs),
    stored: stored === '-' ? undefined : storedOf(stored),
  };
}

/** The recorded calls on counters of each algorithm, of the user alice in the domain demo. */
export const recordedCounters: readonly RecordedCounter[] = recording.counters.map(({ limit, key, calls }) => {
  const before = key.slice(0, key.indexOf('|4:demo|'));
  const counter = renamed.reduce((name, [now, old]) => renamedTo(name, old, now), before);
  const [algorithm, windowMs = ''] = before.split('|');
  const { alignment } = limit;
  const calendar = typeof alignment === 'object' && { alignment: createCalendar(alignment.unit, alignment.timeZone) };
  return {
    limit: { ...limit, ...calendar, algorithm, counter, windowMs: Number.parseInt(windowMs, 10) } as unknown as Limit, // it was recorded from one
    key,
    calls: calls.map((call) => callOf(call, stateOf)),
  };
});

/** The recorded calls on a counter of 10 an hour that is shared with envoyproxy/ratelimit. */
export const recordedShared = {
  key: recording.shared.key,
  shared: { windowStartMs: recording.shared.windowStartMs, ttlMs: recording.shared.ttlMs },
  calls: recording.shared.calls.map((call) => callOf(call, Buffer.from)),
};

/** The algorithms in the order of the script, before the counters that are shared with envoyproxy/ratelimit. */
const steps: readonly Limit['algorithm'][] = [
  'fixed_window',
  'sliding_window_log',
  'sliding_window_counter',
  'sliding_window_buckets',
  'token_bucket',
  'leaky_bucket',
];

/** The numbers of a limit in that script: leaky buckets have no tick, and calendars no phase. */
function previousArgs(limit: Limit, nowMs: number): readonly number[] {
  const numbers = algorithmFor(limit).scriptArgs(limit, nowMs);
  const isCalendar = limit.algorithm === 'fixed_window' && typeof limit.alignment !== 'string';
  return isCalendar || limit.algorithm === 'leaky_bucket' ? numbers.toSpliced(3, 1) : numbers;
}

/** The Redis script of the previous build, and one call of it with one operation. */
export const previousScript = {
  text: script,
  pack(operation: RequestOperation, spend: Spend, nowMs: number): Buffer {
    const { limit, shared, blocks } = operation;
    const step = shared ? steps.length : steps.indexOf(limit.algorithm);
    const numbers = shared ? [limit.requestsPerUnit, shared.ttlMs] : previousArgs(limit, nowMs);
    const request = [spends.indexOf(spend), 1, 1, 1, signedHits(operation), blocks ? 1 : 0];
    return packed([1, step + 1, numbers.length, ...numbers, ...request]);
  },
  codeOf: (reply: Buffer): Decision['code'] => ((reply.readDoubleLE(8) & 1) === 1 ? 'OK' : 'OVER_LIMIT'),
};

/** Counts like an instance of the previous build: one call of its script for each operation, on the given clock. */
export const previousOnRedis = (connection: Connection, clock: Clock) => ({
  async debit(operations: readonly RequestOperation[], spend: Spend) {
    const nowMs = clock();
    const replies = operations.map((one) =>
      connection.callBuffer('EVAL', script, 1, one.key, previousScript.pack(one, spend, nowMs), nowMs),
    );
    return (await Promise.all(replies)).map((reply) => ({ code: previousScript.codeOf(reply as Buffer) })); // it returns bytes
  },
});
