import type {
  Account,
  Algorithm,
  AnyLimit,
  Charge,
  Decision,
  Outcome,
  Row,
  State,
  StateFormat,
  Step,
} from '../algorithms/limit.ts';
import type { Compiled } from '../lua/compiled-step.ts';
import type { Claim } from './claim.ts';
import type { Reports, SiteStanding } from './reports.ts';

/** Counts the hits of a limit, which may have holders or be one site's (`Claim`); algorithms disregard claims. */
export interface Counting<L extends AnyLimit = AnyLimit> extends Row<L> {
  /** What hits are: slots of requests in flight, or allocated until they are given back. Default: they pass. */
  readonly counts?: 'slots' | 'allocated';
  /** Why the limit is no rate, which others could count as well; absent for rates. */
  readonly notARate?: string;
  /** The algorithm that the rule names. Default: that of the limit. */
  named?(limit: L): string;
  /** The limit in words. @param rate  the words for a rate, such as `5 per minute`, which are the default */
  words?(limit: L, rate: string): string;
  /** Hits have holders. */
  readonly hasHolders?: true;
  /** Hits are reserved before their number is known. */
  readonly reserves?: true;
  /** Releases may state the status of the response: see `Claim`. */
  readonly measures?: true;
  /** Scripts of other algorithms that the script calls; they come before it. */
  readonly includes?: readonly Compiled[];
  /** A refusal begins a block, which the counter notes although no hits are charged. */
  readonly blocks?: true;
  /** Whether hits are counted independently of the request's other limits and of its `spend`. Default: never. */
  standsAlone?(limit: L, hits: number, claim: Claim): boolean;
  /** @param claim  absent if the operation states only its hits */
  step(limit: L, state: State | undefined, nowMs: number, hits: number, charge: Charge, claim?: Claim): Step;
  refund(limit: L, state: State | undefined, nowMs: number, hits: number, chargedAtMs: number, claim?: Claim): Step;
  describe(limit: L, report: State, nowMs: number, outcome: Outcome, claim?: Claim): Decision & Reports;
  /** Time that every hit is refused after this refusal; 0 if unknown. Default: 0. */
  refusalHoldsMs?(limit: L, refusal: Refusal): number;
  account?(limit: L, state: State | undefined, nowMs: number, claim: Claim): Account;
  /** What explanations show of a counter besides its state. */
  standing?(limit: L, state: State | undefined, nowMs: number): { readonly site?: SiteStanding };
  /** Whether a child that shares the limit has called lately. @param child  its id */
  isActiveChild?(state: State | undefined, nowMs: number, child: number, limit: L): boolean;
  readonly state: ClaimedState<L>;
  /** The numbers of the limit and the claim, as the script documents them. */
  scriptArgs(limit: L, nowMs: number, claim?: Claim): readonly number[];
}

/** The details of a refusal. */
interface Refusal {
  readonly decision: Decision & Reports;
  /** The number of hits that were refused together. */
  readonly hits: number;
  /** Whether the refused hits were passed to the counter, which may have counted them. */
  readonly charged: boolean;
}

interface ClaimedState<L extends AnyLimit> extends StateFormat<L> {
  longest?(limit: L, claim?: Claim): number;
}

/** Counts the hits of a limit that rules name. */
export type NamedCounting<L extends AnyLimit = AnyLimit> = Counting<L> & Pick<Algorithm<L>, 'keys' | 'parse'>;

/** A counter as it is, without spending hits. */
export function peek<L extends AnyLimit>(
  { step, describe }: Pick<Counting<L>, 'step' | 'describe'>,
  limit: L,
  state: State | undefined,
  nowMs: number,
  claim?: Claim,
): Decision & Reports {
  const { accepted, state: kept, report = kept } = step(limit, state, nowMs, 0, false, claim);
  return describe(limit, report, nowMs, { hits: 0, accepted, charged: false }, claim);
}
