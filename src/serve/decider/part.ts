import type { SideService } from '../../edge/grpc/side-service.ts';
import type { Route } from '../../edge/http/server.ts';
import type { Observer, RlsService } from '../../edge/rls/service.ts';
import type { Decider } from '../../engine/decide/decide.ts';
import type { Ledger } from '../../engine/ledger/ledger.ts';
import type { SitesReport } from '../../operate/observe/site-counts.ts';
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
  /** Answers the questions that the same part asks in the control process. */
  readonly asked?: (question: never) => unknown;
  /** The counts of proxies' quotas. */
  readonly quotas?: DeciderParts['quotas'];
  /** The exchanges with other sites. */
  readonly sites?: () => SitesReport;
  /** Called after the process has warmed up, before it listens. */
  readonly start?: (running: Running) => void;
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
