import type { Decision, State, Step } from '../algorithms/limit.ts';
import { algorithmFor } from '../holds/limits.ts';
import { type Operation, signedHits } from './backend.ts';

interface StepTimes {
  readonly nowMs: number;
  /** Receipts of charges up to then are void. */
  readonly resetAtMs: number;
}

/** Runs operations on one counter, one after another, and describes their outcomes. */
export function stepAll(operations: readonly Operation[], before: State | undefined, times: StepTimes) {
  const { nowMs } = times;
  let state = before;
  let ttlMs = 0;
  const decisions = operations.map((operation): Decision => {
    const { limit, kind } = operation;
    const { describe } = algorithmFor(limit);
    const step = runStep(operation, state, times);
    const isTakenBack = kind === 'refund' || kind === 'forget';
    if (kind !== 'peek' && !(kind === 'refund' && !state)) {
      state = kind === 'forget' ? [] : step.state;
      ttlMs = kind === 'forget' ? 0 : step.ttlMs;
    } else ttlMs = step.ttlMs;
    const hits = isTakenBack ? 0 : signedHits(operation);
    const charged = kind === 'charge' ? 'regardless' : kind !== 'peek' && !isTakenBack;
    return describe(limit, step.report ?? step.state, nowMs, { hits, accepted: step.accepted, charged }, operation);
  });
  return { decisions, state, ttlMs };
}

function runStep(operation: Operation, state: State | undefined, { nowMs, resetAtMs }: StepTimes): Step {
  const { kind, limit, hits } = operation;
  const { step, refund } = algorithmFor(limit);
  if (kind === 'refund')
    return refund(limit, state, nowMs, operation.chargedAtMs <= resetAtMs ? 0 : hits, operation.chargedAtMs, operation);
  if (kind === 'forget') return step(limit, undefined, nowMs, 0, false, operation);
  if (kind === 'peek') return step(limit, state, nowMs, hits, hits === 0, operation);
  return step(limit, state, nowMs, signedHits(operation), kind === 'charge' ? 'regardless' : true, operation);
}
