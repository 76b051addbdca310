import type { SiteSplit } from '../../engine/holds/site-share.ts';
import type { PackedRules } from '../../engine/rules/compile/packed.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import type { CandidateBook } from '../candidate/book.ts';
import type { Findings } from '../findings/findings.ts';
import type { AgentQuestion, NamedReply, ReplyTo } from './agent.ts';
import type { ApiOperation } from './api.ts';
import type { CandidateRecords } from './candidate-records.ts';
import type { TrialTerms } from './candidate-view.ts';
import type { OverrideOptions } from './override-operations.ts';

/** The dependencies of the admin API. */
export interface AdminOptions extends OverrideOptions {
  readonly version: string;
  readonly rules: () => RuleTree | undefined;
  /** The rules in force as they are sent to deciders; their version is computed from this. */
  readonly packed: () => PackedRules | undefined;
  /** A description of the rules' source, for people. */
  readonly source: string;
  /** Asks every process that answers requests. */
  readonly ask: <Q extends AgentQuestion>(question: Q) => Promise<readonly NamedReply<ReplyTo<Q>>[]>;
  /** Asks one of these processes; undefined: none replied in time. */
  readonly askOne: <Q extends AgentQuestion>(question: Q, moreMs?: number) => Promise<ReplyTo<Q> | undefined>;
  /** Requests that all processes received in the last minute. */
  readonly requestsOfMinute: () => Promise<number>;
  /** Whether several processes answer requests. */
  readonly hasWorkers: boolean;
  /** `RLQS` is on: proxies have quotas. */
  readonly hasQuotas: boolean;
  readonly candidate: CandidateBook;
  readonly candidateRecords: CandidateRecords;
  /** `CANDIDATE_RULES_PATH`. */
  readonly candidatePath: string | undefined;
  readonly trial: TrialTerms;
  /** The split of limits that sites share; undefined: this is the only site. */
  readonly split: SiteSplit | undefined;
  /** Rules come from files, not from a control plane. */
  readonly hasRuleFiles: boolean;
  readonly findings: Pick<Findings, 'list'>;
  /** Operations of other parts. */
  readonly more: readonly ApiOperation[];
}
