import type { BreakerState } from '../../backends/breaker.ts';
import type { DenyCacheCounts } from '../../ledger/refusals.ts';
import type { Load } from '../../observe/service-gauges.ts';
import type { Counted } from '../../observe/stats.ts';
import type { PackedDomain } from '../../rules/packed.ts';
import type { OnCall } from '../../transport/grpc-server.ts';

/** Where a worker listens. */
export interface Listening {
  readonly grpc: string;
  readonly http: string;
}

/** What a worker has counted since its last report. */
export interface Report {
  readonly counted: Counted;
  readonly calls: readonly CallTimes[];
  /** Of its circuits to the nodes of the store. */
  readonly circuits: ReadonlyMap<string, BreakerState>;
  /** Hits that it has leased and not used. */
  readonly leased: number;
  /** How busy it is. */
  readonly load: Load;
  /** Of its cache of refusals, since the worker's start; undefined where it has none. */
  readonly cache: { readonly counts: DenyCacheCounts; readonly size: number } | undefined;
}

/** How long calls of a method took that ended alike. */
export interface CallTimes {
  readonly method: Parameters<OnCall>[0];
  readonly status: Parameters<OnCall>[1];
  readonly elapsedMs: readonly number[];
}

/**
 * The rules in force: parts of domains, those of the same domain in their order, and then an end, which says whether there are rules at all. Large
 * rules are many messages, so that none holds up the worker's requests.
 */
export type RulesMessage =
  | { readonly kind: 'rules_part'; readonly part: PackedDomain }
  | { readonly kind: 'rules_end'; readonly areLoaded: boolean };

/** What the primary process tells a worker. */
export type ToWorker =
  | RulesMessage
  /** Report, under this number. */
  | { readonly kind: 'report'; readonly number: number }
  /** Answer what is under way, then end. */
  | { readonly kind: 'close' };

/** What a worker tells the primary process. */
export type FromWorker =
  /** It takes rules from now on: those in force, then each change. */
  | { readonly kind: 'takes_rules' }
  | { readonly kind: 'listening'; readonly at: Listening }
  | { readonly kind: 'cannot_start'; readonly message: string }
  /** A report, or a part of one: all parts together are the report. */
  | { readonly kind: 'report'; readonly report: Report }
  /** All parts of the report with this number have been sent. */
  | { readonly kind: 'reported'; readonly number: number };
