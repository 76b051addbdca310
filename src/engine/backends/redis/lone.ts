import { type RateLimit, rateFor } from '../../algorithms/index.ts';
import { isRateLimit } from '../../holds/limits.ts';
import type { Operation, Replies } from '../backend.ts';
import type { BatchRequest, ForeignCounters } from './batch.ts';
import { outcomeOf } from './batch-reply.ts';
import { DOUBLE_BYTES, dataView, PackedNumbers } from './packed-numbers.ts';

/** A single spend under a rate limit, which is what most calls are at ordinary load. */
interface LoneSpend {
  readonly operation: Operation;
  readonly limit: RateLimit;
  readonly receipts: boolean | undefined;
}

/** The only operation of the requests, if it is a spend that the lone scripts can count. */
export function findLoneSpend(
  [request, other]: readonly BatchRequest[],
  foreign: ForeignCounters | undefined,
): LoneSpend | undefined {
  if (!request || other || request.spend !== 'each' || request.operations.length !== 1) return undefined;
  const operation = request.operations[0] as Operation; // there is one
  const { kind, limit } = operation;
  if (kind !== 'spend' || !isRateLimit(limit) || foreign?.has(operation)) return undefined;
  return { operation, limit, receipts: request.receipts };
}

/** A buffer, reused for all calls. */
const packed = new PackedNumbers();

/** Returns the ARGV[1] of scripts/lone.ts. @param nowMs  this process's clock, around which calendar windows are computed */
export function encodeLone({ operation, limit }: LoneSpend, nowMs: number): Buffer {
  packed.clear();
  packed.addAll(rateFor(limit).scriptArgs(limit, nowMs));
  packed.add(operation.hits);
  return packed.copy();
}

/** @throws RangeError  if the reply is too short: it is not this script's */
export function decodeLone(reply: Buffer, { operation: { hits }, limit, receipts }: LoneSpend): Replies {
  const view = dataView(reply);
  const numberAt = (at: number): number => view.getFloat64(at * DOUBLE_BYTES, true);
  const nowMs = numberAt(0);
  const report = Array.from({ length: numberAt(2) }, (_, at) => numberAt(REPORT_AT + at));
  const { accepted } = outcomeOf(numberAt(1));
  const decision = rateFor(limit).describe(limit, report, nowMs, { hits, accepted, charged: true });
  return [receipts ? { ...decision, chargedAtMs: nowMs } : decision];
}

/** The place of the report in a reply, after the clock, the outcome and the report's length. */
const REPORT_AT = 3;
