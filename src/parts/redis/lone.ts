import { type RateLimit, rateFor } from '../../engine/algorithms/index.ts';
import type { Operation, Replies } from '../../engine/backends/backend.ts';
import { packNumbers } from '../../engine/backends/packed-state.ts';
import { isRateLimit } from '../../engine/holds/limits.ts';
import type { BatchRequest } from './batch.ts';
import { outcomeOf, readNumbers, withTime } from './batch-reply.ts';

/** A single spend under a rate limit, which is what most calls are at ordinary load. */
interface LoneSpend {
  readonly operation: Operation;
  readonly limit: RateLimit;
  readonly receipts: boolean | undefined;
}

/** The only operation of the requests, if it is a spend that the lone scripts can count. */
export function findLoneSpend([request, other]: readonly BatchRequest[]): LoneSpend | undefined {
  if (!request || other || request.spend !== 'each' || request.operations.length !== 1) return undefined;
  const operation = request.operations[0] as Operation; // there is one
  const { kind, limit, shared } = operation;
  return kind === 'spend' && isRateLimit(limit) && !shared
    ? { operation, limit, receipts: request.receipts }
    : undefined;
}

/** Returns the ARGV[1] of scripts/lone.ts. @param nowMs  this process's clock, around which calendar windows are computed */
export const encodeLone = ({ operation, limit }: LoneSpend, nowMs: number): Buffer =>
  packNumbers([...rateFor(limit).scriptArgs(limit, nowMs), operation.hits]);

/** @throws RangeError  if the reply is too short: it is not this script's */
export function decodeLone(reply: Buffer, { operation: { hits }, limit, receipts }: LoneSpend): Replies {
  const { next, nextNumbers } = readNumbers(reply);
  const nowMs = next();
  const { accepted } = outcomeOf(next());
  const decision = rateFor(limit).describe(limit, nextNumbers(), nowMs, { hits, accepted, charged: true });
  return [receipts ? withTime(decision, nowMs) : decision];
}
