import type { SideService } from '../../edge/grpc/side-service.ts';
import type { Route } from '../../edge/http/server.ts';
import type { Caller, MissedBy, Observer, RlsService } from '../../edge/rls/service.ts';
import type { WireRequest } from '../../edge/wire/wire.ts';
import type { KnownCounter } from '../../engine/decide/counter-key.ts';
import type { Decider } from '../../engine/decide/decide.ts';
import type { Ledger } from '../../engine/ledger/ledger.ts';
import type { Lapse } from '../../engine/ledger/reservations.ts';
import type { SitesReport } from '../../operate/observe/site-counts.ts';
import type { undecidedBy } from '../../operate/observe/stats.ts';
import type { DeciderParts } from '../../operate/observe/table.ts';
import type { Settings } from '../../settings/settings.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import type { Part } from '../parts/start-up.ts';
import type { DeciderCore } from './core.ts';
import type { ServiceObserver } from './reporter.ts';

/** What an optional capability adds to a process that answers requests. */
export interface DeciderPart extends Partial<Part> {
  /** Spends hits in place of the store's ledger. */
  readonly ledger?: Pick<Ledger, 'debit' | 'refund' | 'atomic'> & Partial<Pick<Ledger, 'recall'>>;
  /** Decides requests in place of the decider that it was given. */
  readonly decider?: Decider;
  /** Wraps the service that answers requests. */
  readonly service?: (inner: RlsService) => RlsService;
  /** Wraps the pages for callers. */
  readonly pages?: (inner: ReadonlyMap<string, Route>) => ReadonlyMap<string, Route>;
  /** Offered beside the core's gRPC services. */
  readonly offers?: SideService;
  /** Notified of answers after they have been sent. */
  readonly answered?: Observer['answered'];
  /** Notified of all that requests show; also while the process warms up. */
  readonly watch?: Watch;
  /** Answers the questions that the same part asks in the control process. */
  readonly asked?: (question: never) => unknown;
  /** The counts of proxies' quotas. */
  readonly quotas?: DeciderParts['quotas'];
  /** The exchanges with other sites. */
  readonly sites?: () => SitesReport;
  /** Called after the process has warmed up, before it listens. */
  readonly start?: (running: Running) => void;
}

/** Notified of requests, and of what becomes of them. */
export interface Watch extends Pick<Observer, 'answered'> {
  /** A request is invalid. */
  invalid(request: WireRequest, caller: Caller): void;
  /** A request gets no decision. @param caller  undefined if it is not known */
  undecided(
    reason: MissedBy | ReturnType<typeof undecidedBy>,
    caller: Pick<Caller, 'header' | 'connection'> | undefined,
  ): void;
  /** A request charges or gives back more hits than are counted. */
  readonly bounded: NonNullable<Decider['onBounded']>;
  /** A reservation is committed through another service than the one that made it. */
  committed(domain: string): void;
  /** Reservations have lapsed. */
  lapsed(counter: KnownCounter, lapse: Lapse): void;
  /** Forgets what it was notified of while the process warmed up. */
  clear(): void;
}

/** What answers requests. */
interface Running {
  /** Notified of the answers; a part may replace its methods. */
  readonly observer: Observer;
  /** Whether this process is refusing calls because it is overloaded. */
  readonly isBehind: () => boolean;
}

interface Sources {
  readonly core: DeciderCore;
  readonly decider: Decider;
  /** What `decider` spends hits in. */
  readonly ledger: NonNullable<DeciderPart['ledger']>;
  readonly serviceObserver: ServiceObserver;
}

export type OpenDeciderPart = (
  sources: Sources,
  settings: Settings,
  context: ProcessContext,
) => DeciderPart | Promise<DeciderPart>;
