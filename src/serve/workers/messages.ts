import type { OnCallFinished } from '../../edge/grpc/grpc-server.ts';
import type { BreakerState } from '../../engine/backends/breaker.ts';
import type { DenyCacheCounts } from '../../engine/ledger/refusals.ts';
import type { PackedDomain } from '../../engine/rules/compile/packed.ts';
import type { UsableFiles } from '../../h2/listen/usable-files.ts';
import type { AgentQuestion, AgentReply } from '../../operate/admin/agent.ts';
import type { Load } from '../../operate/observe/service-gauges.ts';
import type { Counted } from '../../operate/observe/stats.ts';

/** A worker's addresses. */
export interface Listening {
  readonly grpc: string;
  readonly http: string;
}

/** A worker's counts since its last report. */
export interface Report {
  readonly counted: Counted;
  readonly calls: readonly CallTimes[];
  /** Its circuits, by node of the store. */
  readonly circuits: ReadonlyMap<string, BreakerState>;
  /** Leased but unused hits. */
  readonly leased: number;
  /** Its load. */
  readonly load: Load;
  /** Its cache of refusals since its start; undefined: none. */
  readonly cache: { readonly counts: DenyCacheCounts; readonly size: number } | undefined;
}

/** Durations of calls with the same method and status. */
export interface CallTimes {
  readonly method: Parameters<OnCallFinished>[0];
  readonly status: Parameters<OnCallFinished>[1];
  readonly elapsedMs: readonly number[];
}

/**
 * The rules in force: parts of domains, in order within a domain, then an end, which says whether rules are loaded.
 * Large rules are sent in many messages, so that none delays the worker's requests.
 */
export type RulesMessage =
  | { readonly kind: 'rules_part'; readonly part: PackedDomain }
  | { readonly kind: 'rules_end'; readonly areLoaded: boolean };

/** Messages of the primary process to a worker. */
export type ToWorker =
  /** The last usable contents of certificate and key files. */
  | { readonly kind: 'files'; readonly usable: UsableFiles }
  | RulesMessage
  /** The candidate, sent in the same way; an end without rules: there is none. */
  | { readonly kind: 'candidate'; readonly message: RulesMessage }
  /** Requests a report with this number. */
  | { readonly kind: 'report'; readonly number: number }
  /** Answer an operator's question, under this number. */
  | { readonly kind: 'ask'; readonly number: number; readonly question: AgentQuestion }
  /** Finish the calls in flight, then end. */
  | { readonly kind: 'close' };

/** Messages of a worker to the primary process. */
export type FromWorker =
  /** Ready to receive files, which are sent once. */
  | { readonly kind: 'takes_files' }
  /** Ready to receive rules: the rules in force, then each change. */
  | { readonly kind: 'takes_rules' }
  | { readonly kind: 'listening'; readonly at: Listening }
  | { readonly kind: 'cannot_start'; readonly message: string }
  /** A part of a report. */
  | { readonly kind: 'report'; readonly report: Report }
  /** All parts of the report with this number have been sent. */
  | { readonly kind: 'reported'; readonly number: number }
  | { readonly kind: 'reply'; readonly number: number; readonly reply: AgentReply };
