import type { Algorithm, AnyLimit, Charge, Decision, Outcome, State, StateFormat, Step } from '../algorithms/limit.ts';
import type { Claim } from './claim.ts';
import type { Reports } from './reports.ts';

/** Properties of algorithms that only the rules and the ledger use, for limits on rates. */
type OfRates = 'keys' | 'parse' | 'divide' | 'leaseMs' | 'refusalHoldsMs' | 'waitForMoreMs';

/**
 * Counts the hits of a limit, which may have holders, or be one site's: see `Claim`. An algorithm counts without regard
 * to claims.
 */
export interface Counting<L extends AnyLimit = AnyLimit> extends Omit<Algorithm<L>, OfRates> {
  /** Hits have holders. */
  readonly hasHolders?: true;
  /** Releases may state the status of the response: see `Claim`. */
  readonly measures?: true;
  /** Scripts of other algorithms that the script calls; they come before it. */
  readonly includes?: readonly URL[];
  /** Further ones that it calls only if children share the limit; they come before the others. */
  readonly sharing?: readonly URL[];
  /** Whether hits are counted independently of the request's other limits and of its `spend`. Default: never. */
  standsAlone?(limit: L, hits: number, claim: Claim): boolean;
  /** @param claim  absent if the operation states only its hits */
  step(limit: L, state: State | undefined, nowMs: number, hits: number, charge: Charge, claim?: Claim): Step;
  refund(limit: L, state: State | undefined, nowMs: number, hits: number, chargedAtMs: number, claim?: Claim): Step;
  describe(limit: L, report: State, nowMs: number, outcome: Outcome, claim?: Claim): Decision & Reports;
  readonly state: ClaimedState<L>;
  /** The numbers of the limit and the claim, as the script documents them. */
  scriptArgs(limit: L, nowMs: number, claim?: Claim): readonly number[];
}

interface ClaimedState<L extends AnyLimit> extends StateFormat<L> {
  longest?(limit: L, claim?: Claim): number;
}

/** Counts the hits of a limit that rules name. */
export type NamedCounting<L extends AnyLimit = AnyLimit> = Counting<L> & Pick<Algorithm<L>, 'keys' | 'parse'>;
