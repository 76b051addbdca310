import type { State } from '../../engine/algorithms/limit.ts';
import {
  describeRun,
  type Operation,
  type Replies,
  type Reply,
  type TriedHits,
  triedHits,
} from '../../engine/backends/backend.ts';
import { DOUBLE_BYTES, dataView } from '../../engine/backends/packed-state.ts';
import { stepOne } from '../../engine/backends/steps.ts';
import { algorithmFor } from '../../engine/holds/limits.ts';
import type { Batch, BatchRequest, Run } from './batch.ts';
import { outcomes } from './scripts/format.ts';

/** What became of an operation, by its outcome. */
const meanings: ReadonlyMap<number, { readonly accepted: boolean; readonly charged: boolean }> = new Map([
  [outcomes.refused, { accepted: false, charged: false }],
  [outcomes.accepted, { accepted: true, charged: false }],
  [outcomes.refusedCharged, { accepted: false, charged: true }],
  [outcomes.acceptedCharged, { accepted: true, charged: true }],
]);

/** Why a counter that is shared with other programs cannot be used: Redis's errors. */
const reasons: ReadonlyMap<number, string> = new Map([
  [outcomes.wrongType, 'redis: WRONGTYPE Operation against a key holding the wrong kind of value'],
  [outcomes.noInteger, 'redis: ERR value is not an integer or out of range'],
]);

/** @throws RangeError  if there is no such outcome: the reply is not this script's */
export function outcomeOf(outcome: number) {
  const meaning = meanings.get(outcome);
  if (!meaning) throw new RangeError(`expected an outcome of the script, got ${outcome}`);
  return meaning;
}

/** The node's clock in a reply of the script. */
export const readClock = (reply: Buffer): number => dataView(reply).getFloat64(0, true);

/** Reads the numbers of a reply one after another; `nextNumbers` reads a list, which follows its length. */
export function readNumbers(reply: Buffer) {
  const view = dataView(reply);
  let at = 0;
  const next = (): number => {
    const number = view.getFloat64(at, true);
    at += DOUBLE_BYTES;
    return number;
  };
  const nextNumbers = (): readonly number[] => {
    const count = next();
    if (count === 2) return [next(), next()]; // a window and its count
    const numbers = new Array<number>(count); // with `push`, an empty array would reserve room for 17
    for (let at = 0; at < count; at++) numbers[at] = next();
    return numbers;
  };
  return { next, nextNumbers };
}

/**
 * Reads the script's reply: for each request one reply per operation, in the order of the requests.
 *
 * @throws RangeError  if the reply is too short for the operations: it is not this script's
 */
export function decodeBatch(
  reply: Buffer,
  { requests, operationCount, runs, trees, groups, nowMs: ownNowMs }: Batch,
): readonly Replies[] {
  const { next, nextNumbers } = readNumbers(reply);
  const nowMs = next();
  const replies = new Array<Reply>(operationCount); // by the operations' numbers
  const decodeSpend = ({ spend }: Run, outcome: number): Reply => {
    const spent = { hits: spend.hits, accepted: outcomeOf(outcome).accepted, charged: true };
    return algorithmFor(spend.limit).describe(spend.limit, nextNumbers(), nowMs, spent, spend);
  };
  const decodeRepeated = (run: Run, numbers: readonly number[]): void => {
    const outcome = next();
    if (outcome === outcomes.stateBefore) return repeatSteps(run, numbers, nextNumbers());
    for (let at = 0; at < numbers.length; at++)
      replies[numbers[at] as number] = decodeSpend(run, at === 0 ? outcome : next());
  };
  const repeatSteps = ({ spend }: Run, numbers: readonly number[], before: State): void => {
    let state = before.length > 0 ? before : undefined;
    for (const number of numbers) {
      const spent = stepOne(spend, state, nowMs);
      replies[number] = spent.decision;
      state = spent.state;
    }
  };
  const decode = (outcome: number, operation: Operation, tried: TriedHits | undefined): Reply => {
    const { limit, kind, shared } = operation;
    const report = nextNumbers();
    const reason = reasons.get(outcome);
    if (reason) return { code: 'UNAVAILABLE', reason };
    const { accepted, charged } = outcomeOf(outcome);
    const done = { accepted, charged: kind === 'charge' ? 'regardless' : charged } as const;
    if (!shared) return describeRun(operation, report, nowMs, done, tried);
    const { windowStartMs } = shared; // it may have ended since the counter was named
    const withinMs = Math.min(ownNowMs, windowStartMs + limit.windowMs - 1);
    return describeRun(operation, [windowStartMs, report[0] ?? 0], withinMs, done, tried);
  };
  for (const run of runs) {
    for (const { numbers } of run.counters)
      if (numbers.length === 1) replies[numbers[0] as number] = decodeSpend(run, next());
    for (const { numbers } of run.counters) if (numbers.length > 1) decodeRepeated(run, numbers);
  }
  for (const { operations, numbers } of trees)
    for (const [at, operation] of operations.entries())
      replies[numbers[at] as number] = decode(next(), operation, undefined);
  for (const { request, operations, first } of groups) {
    let tried: readonly TriedHits[] | undefined;
    for (const [at, operation] of operations.entries()) {
      const outcome = next();
      const isTried = meanings.get(outcome)?.charged === false && request.spend !== 'each';
      if (isTried) tried ??= triedHits(operations);
      replies[first + at] = decode(outcome, operation, isTried ? tried?.[at] : undefined);
    }
  }
  return byRequest(requests, replies, nowMs);
}

/** @param replies  to the operations of all requests, in order */
function byRequest(requests: readonly BatchRequest[], replies: readonly Reply[], nowMs: number): readonly Replies[] {
  const answers = new Array<Replies>(requests.length);
  let first = 0;
  for (let at = 0; at < requests.length; at++) {
    const { operations, receipts } = requests[at] as BatchRequest; // in range
    const own = operations.length === 1 ? [replies[first] as Reply] : replies.slice(first, first + operations.length);
    answers[at] = receipts ? own.map((reply) => withTime(reply, nowMs)) : own;
    first += operations.length;
  }
  return answers;
}

export const withTime = (reply: Reply, nowMs: number): Reply =>
  reply.code === 'UNAVAILABLE' ? reply : { ...reply, chargedAtMs: nowMs };
