import type { Counted } from '../../observe/stats.ts';
import type { BreakerState } from '../../stores/breaker.ts';
import type { DenyCacheCounts } from '../../stores/deny-cache.ts';
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
  /** Of its cache of refusals, since the worker's start; undefined where it has none. */
  readonly cache: { readonly counts: DenyCacheCounts; readonly size: number } | undefined;
}

/** How long calls of a method took that ended alike. */
export interface CallTimes {
  readonly method: Parameters<OnCall>[0];
  readonly status: Parameters<OnCall>[1];
  readonly elapsedMs: readonly number[];
}

/** What the primary process tells a worker. */
export type ToWorker =
  /** Report, under this number. */
  | { readonly kind: 'report'; readonly number: number }
  /** Answer what is under way, then end. */
  | { readonly kind: 'close' };

/** What a worker tells the primary process. */
export type FromWorker =
  | { readonly kind: 'listening'; readonly at: Listening }
  | { readonly kind: 'cannot_start'; readonly message: string }
  /** Without a number: nobody has asked, it is the last one. */
  | { readonly kind: 'report'; readonly number?: number; readonly report: Report };
