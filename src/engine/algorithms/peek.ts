import type { AnyLimit, Charge, Decision, Outcome, State, Step } from './limit.ts';

/** The part of a row that looks at counters. */
interface Peeking<L extends AnyLimit, C, D extends Decision> {
  step(limit: L, state: State | undefined, nowMs: number, hits: number, charge: Charge, claim?: C): Step;
  describe(limit: L, report: State, nowMs: number, outcome: Outcome, claim?: C): D;
}

/** A counter as it is, without spending hits. */
export function peek<L extends AnyLimit, C, D extends Decision>(
  row: Peeking<L, C, D>,
  limit: L,
  state: State | undefined,
  nowMs: number,
  claim?: C,
): D {
  const { accepted, state: kept, report = kept } = row.step(limit, state, nowMs, 0, false, claim);
  return row.describe(limit, report, nowMs, { hits: 0, accepted, charged: false }, claim);
}
