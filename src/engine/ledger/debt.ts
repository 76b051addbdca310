import type { Limit } from '../algorithms/index.ts';
import { algorithmFor } from '../algorithms/index.ts';
import type { State } from '../algorithms/limit.ts';
import type { Operation } from '../backends/backend.ts';
import { inOnePiece, isWide, keyBytes } from '../backends/key.ts';
import type { Debit } from './debit.ts';

/**
 * Hits that were counted here and not yet in the backend. They are kept as state of the whole limit's counter, so that
 * they expire when they no longer matter.
 */
export interface Debt {
  readonly debit: Debit;
  unsettled: State | undefined;
  returned: State | undefined;
  /** The time, in milliseconds since the epoch, from which the counter would have none of the hits. */
  untilMs: number;
}

/** A debt without hits. It retains nothing of the request except the debit. */
export const newDebt = (debit: Debit): Debt => ({
  debit: { ...debit, key: inOnePiece(debit.key) },
  unsettled: undefined,
  returned: undefined,
  untilMs: 0,
});

/** The bytes of a debt, its debit, and the window that it shares with other programs. */
const DEBT_BYTES = 208;
/** The bytes of a state's array with its header, and of each of its numbers. */
const STATE_BYTES = 56;
const NUMBER_BYTES = 8;

/** The approximate memory of a debt. */
export const bytesOf = ({ debit: { key }, unsettled, returned }: Debt): number =>
  DEBT_BYTES + keyBytes(key.length, isWide(key)) + stateBytes(unsettled) + stateBytes(returned);

const stateBytes = (state: State | undefined): number => (state ? STATE_BYTES + NUMBER_BYTES * state.length : 0);

/** The hits that a state still has. */
export function hitsIn(limit: Limit, state: State | undefined, nowMs: number): number {
  if (!state) return 0;
  const { step, describe } = algorithmFor(limit);
  const { state: current, report = current } = step(limit, state, nowMs, 0, false);
  return describe(limit, report, nowMs, { hits: 0, accepted: true, charged: false }).hitsBefore;
}

/** @param hits  negative: they are given back */
export function stateAfter(limit: Limit, state: State | undefined, nowMs: number, hits: number): State | undefined {
  if (hits === 0) return state;
  const next = algorithmFor(limit).step(limit, state, nowMs, hits, hits < 0 ? true : 'regardless');
  return next.ttlMs > 0 ? next.state : undefined;
}

/** When a state has no hits left. */
export const endOf = (limit: Limit, state: State | undefined, nowMs: number): number =>
  state ? nowMs + algorithmFor(limit).step(limit, state, nowMs, 0, false).ttlMs : 0;

/** The operations that settle the debt. */
export function operationsOf({ debit, unsettled, returned }: Debt, nowMs: number): readonly Operation[] {
  const charged = hitsIn(debit.limit, unsettled, nowMs);
  const givenBack = hitsIn(debit.limit, returned, nowMs);
  return [
    ...(charged > 0 ? [{ ...debit, kind: 'charge' as const, hits: charged }] : []),
    ...(givenBack > 0 ? [{ ...debit, kind: 'give_back' as const, hits: givenBack }] : []),
  ];
}
