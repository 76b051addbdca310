import cluster from 'node:cluster';
import type { Clock } from '../clock.ts';
import type { Answer, Decider } from '../decide.ts';
import { createDecisionLog, type LogDecision } from '../observe/decision-log.ts';
import { createDecisionSink, type Logger } from '../observe/log.ts';
import type { Load } from '../observe/service-gauges.ts';
import { openOverload } from '../overload/overload.ts';
import { createResponseHeaders } from '../rls/headers.ts';
import { createDynamicMetadata } from '../rls/metadata.ts';
import { createRlsService, type Extras, INTERNAL_ERROR, type Observer } from '../rls/service.ts';
import type { WireRequest } from '../rls/wire.ts';
import type { Settings } from '../settings.ts';
import type { OnCall } from '../transport/grpc-server.ts';
import type { Basis } from './basis.ts';
import { createParts } from './parts.ts';
import { openServers, type Servers } from './servers.ts';
import { awaitStore, countersOf } from './store.ts';
import { openTracing } from './tracing.ts';

/** Is told what becomes of requests. */
export interface Told {
  answered(domain: string, answer: Answer): void;
  /** A request had no answer, for this cause. */
  failed(cause: unknown): void;
  /** One call of gRPC has been answered. */
  readonly called: OnCall;
  /** A connection of gRPC, or a stream of it, was ended for this reason. */
  connectionFailed(code: string): void;
  /** A call was refused since there is too much to do. */
  shed(): void;
  /** Decisions were not logged since there were too many. */
  decisionsNotLogged(decisions: number): void;
}

/** The servers, and how busy they are. */
export interface Answering extends Servers {
  load(): Load;
}

/**
 * Answers requests, over gRPC and HTTP.
 *
 * @throws CannotStart  an address that cannot be bound, certificates that cannot be used
 */
export async function openAnswering(
  settings: Settings,
  { counters, rules, readiness }: Basis,
  told: Told,
  clock: Clock,
  log: Logger,
): Promise<Answering> {
  const parts = createParts();
  try {
    const tracing = await openTracing(settings, clock, log);
    if (tracing) parts.add(tracing);
    const spanName = storeSpans[settings.store.kind];
    if (tracing && spanName) counters.ledger.traceWith(tracing.backend(spanName));
    const { STORE_TIMEOUT: storeTimeoutMs, SHADOW_MODE: shadowMode, QUOTA_MODE: quotaMode, spend } = settings;
    const modes = { storeTimeoutMs, shadowMode, quotaMode, spend };
    const decider = {
      rules: rules.book.rules,
      ledger: counters.ledger,
      counters: countersOf(settings, clock),
      ...modes,
    };
    const holds = { count: 0 };
    const logDecision = openDecisionLog(settings, decider, told, log);
    const untraced = createRlsService(decider, extrasOf(settings), createObserver(told, logDecision, log), holds);
    const overload = parts.add(
      openOverload({
        maxInFlight: settings.MAX_IN_FLIGHT_CALLS,
        lagMs: settings.OVERLOAD_LAG,
        memoryBytes: settings.CALLER_MEMORY_BYTES && Math.floor(settings.CALLER_MEMORY_BYTES / settings.WORKERS),
        onShed: () => told.shed(),
      }),
    );
    const service = overload.counting(tracing ? tracing.service(untraced) : untraced);
    await awaitStore(counters);
    const onConnectionError = (code: string) => told.connectionFailed(code);
    const sources = {
      service,
      overload,
      routes: tracing?.routes,
      readiness,
      rules: rules.book.rules,
      clock,
      onCall: told.called,
      onConnectionError,
    };
    const { grpc, http } = parts.add(await openServers(settings, sources, log));
    const load = (): Load => ({
      inFlight: overload.inFlight(),
      held: holds.count,
      connections: overload.memory.connections,
      shedShare: overload.shedShare(),
    });
    return { grpc, http, load, close: parts.close };
  } catch (error) {
    await parts.close();
    throw error;
  }
}

/** What the spans of a store are called; there are none of one that asks nobody. */
const storeSpans = {
  memory: undefined,
  redis: 'Redis Pipeline Execution',
  memcache: 'Memcached Fetch Execution',
} as const;

function extrasOf(settings: Settings): Extras {
  const { LIMIT_LIMIT_HEADER: limit, LIMIT_REMAINING_HEADER: remaining, LIMIT_RESET_HEADER: reset } = settings;
  return {
    headers: createResponseHeaders({
      limits: settings.LIMIT_RESPONSE_HEADERS_ENABLED ? { limit, remaining, reset } : undefined,
      ofEveryDescriptor: settings.LIMIT_ALL_DESCRIPTORS_HEADERS_ENABLED,
      retryAfter: settings.LIMIT_RETRY_AFTER_HEADERS,
      soft: settings.LIMIT_SOFT_HEADER,
      quotaMode: settings.QUOTA_MODE,
    }),
    metadata: createDynamicMetadata({ ofRequest: settings.RESPONSE_DYNAMIC_METADATA }),
  };
}

/** Undefined where no decision is logged. */
function openDecisionLog(
  settings: Settings,
  { rules, counters }: Pick<Decider, 'rules' | 'counters'>,
  told: Told,
  log: Logger,
): LogDecision | undefined {
  const { DECISION_LOG: decisions, DECISION_LOG_MAX_PER_SECOND: together, WORKERS, LOG_FORMAT: format } = settings;
  const worker = cluster.worker?.id;
  return createDecisionLog({
    ...{ rules, counters, decisions },
    debug: log.isLevelEnabled('debug') ? log : undefined,
    log: createDecisionSink({ level: 'info', format, ...(worker !== undefined && { worker }) }),
    maxPerSecond: Math.max(Math.floor(together / WORKERS), 1),
    onDropped: told.decisionsNotLogged,
    monotonicMs: () => performance.now(),
    random: Math.random,
  });
}

function createObserver(told: Told, logDecision: LogDecision | undefined, log: Logger): Observer {
  const answered = (request: WireRequest, answer: Answer): void => told.answered(request.domain, answer);
  return {
    answered: logDecision
      ? (request, answer) => {
          answered(request, answer);
          logDecision(request, answer);
        }
      : answered,
    failed({ details }, cause) {
      told.failed(cause);
      if (details === INTERNAL_ERROR) log.error({ err: cause }, 'a request failed by a bug of ours');
      else log.debug(`a request failed: ${details}`);
    },
  };
}
