import cluster from 'node:cluster';
import type { AdminAgent } from '../admin/agent.ts';
import type { Clock } from '../clock.ts';
import type { Answer, Decider } from '../decide.ts';
import { createDecisionLog, type LogDecision } from '../observe/decision-log.ts';
import { createDecisionSink, type Logger } from '../observe/log.ts';
import type { Load } from '../observe/service-gauges.ts';
import { openOverload } from '../overload/overload.ts';
import { createResponseHeaders } from '../rls/headers.ts';
import { createHoldsService } from '../rls/holds.ts';
import { createDynamicMetadata } from '../rls/metadata.ts';
import { createRlsService, type Extras, INTERNAL_ERROR, type Observer } from '../rls/service.ts';
import type { WireRequest } from '../rls/wire.ts';
import type { Settings } from '../settings.ts';
import { createSlots } from '../slots/slots.ts';
import type { OnCall } from '../transport/grpc-server.ts';
import { openAgent } from './agent.ts';
import type { Core } from './core.ts';
import { createParts } from './parts.ts';
import { openServers, type Servers } from './servers.ts';
import { awaitStore, countersOf } from './store.ts';
import { openTracing } from './tracing.ts';

/** Notified of the outcome of requests. */
export interface ServiceObserver {
  answered(domain: string, answer: Answer): void;
  /** A request failed. */
  failed(cause: unknown): void;
  /** A gRPC call has been answered. */
  readonly called: OnCall;
  /** A gRPC connection or stream was ended with this error code. */
  connectionFailed(code: string): void;
  /** A call was refused because of overload. */
  shed(): void;
  /** Decisions exceeded the limit of the decision log. */
  decisionsNotLogged(decisions: number): void;
}

/** The servers and their load. */
export interface Answering extends Servers {
  load(): Load;
  /** Serves operators. */
  readonly agent: AdminAgent;
}

/** The dependencies of decisions. */
export function deciderOf(settings: Settings, { counters, rules }: Pick<Core, 'counters' | 'rules'>, clock: Clock) {
  const { STORE_TIMEOUT: storeTimeoutMs, SHADOW_MODE: shadowMode, QUOTA_MODE: quotaMode, spend } = settings;
  const modes = { storeTimeoutMs, shadowMode, quotaMode, spend };
  const { ledger, overrides } = counters;
  return { rules: rules.book.rules, ledger, overrides, counters: countersOf(settings, clock), ...modes };
}

/**
 * Opens the gRPC and HTTP servers.
 *
 * @throws CannotStart if an address cannot be bound, or certificates cannot be used
 */
export async function openAnswering(
  settings: Settings,
  { counters, rules, readiness }: Core,
  serviceObserver: ServiceObserver,
  clock: Clock,
  log: Logger,
): Promise<Answering> {
  const parts = createParts();
  try {
    const tracing = await openTracing(settings, clock, log);
    if (tracing) parts.add(tracing);
    const spanName = storeSpans[settings.store.kind];
    if (tracing && spanName) counters.ledger.traceWith(tracing.backend(spanName));
    const decider = deciderOf(settings, { counters, rules }, clock);
    const agent = parts.add(openAgent(settings, { counters, rules }, decider, extrasOf(settings), clock));
    const holds = { count: 0 };
    const logDecision = openDecisionLog(settings, decider, serviceObserver, log);
    const observer = createObserver(serviceObserver, agent, logDecision, log);
    const untraced = createRlsService(decider, extrasOf(settings), observer, holds);
    const overload = parts.add(
      openOverload({
        maxInFlight: settings.MAX_IN_FLIGHT_CALLS,
        lagMs: settings.OVERLOAD_LAG,
        memoryBytes: settings.CALLER_MEMORY_BYTES && Math.floor(settings.CALLER_MEMORY_BYTES / settings.WORKERS),
        onShed: () => serviceObserver.shed(),
      }),
    );
    const service = overload.counting(tracing ? tracing.service(untraced) : untraced);
    await awaitStore(counters);
    const onConnectionError = (code: string) => serviceObserver.connectionFailed(code);
    const sources = {
      service,
      overload,
      routes: tracing?.routes,
      readiness,
      rules: rules.book.rules,
      holds: createHoldsService(createSlots(decider)),
      clock,
      onCall: serviceObserver.called,
      onConnectionError,
    };
    const { grpc, http } = parts.add(await openServers(settings, sources, log));
    const load = (): Load => ({
      inFlight: overload.inFlight(),
      held: holds.count,
      connections: overload.memory.connections,
      shedShare: overload.shedShare(),
    });
    return { grpc, http, load, agent, close: parts.close };
  } catch (error) {
    await parts.close();
    throw error;
  }
}

/** The names of a store's spans; none for counters in memory. */
const storeSpans = {
  memory: undefined,
  redis: 'Redis Pipeline Execution',
  memcache: 'Memcached Fetch Execution',
} as const;

/** Headers and metadata of answers. */
export function extrasOf(settings: Settings): Extras {
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

/** Undefined if no decisions are logged. */
function openDecisionLog(
  settings: Settings,
  { rules, counters }: Pick<Decider, 'rules' | 'counters'>,
  observer: ServiceObserver,
  log: Logger,
): LogDecision | undefined {
  const { DECISION_LOG: decisions, DECISION_LOG_MAX_PER_SECOND: together, WORKERS, LOG_FORMAT: format } = settings;
  const worker = cluster.worker?.id;
  return createDecisionLog({
    ...{ rules, counters, decisions },
    debug: log.isLevelEnabled('debug') ? log : undefined,
    log: createDecisionSink({ level: 'info', format, ...(worker !== undefined && { worker }) }),
    maxPerSecond: Math.max(Math.floor(together / WORKERS), 1),
    onDropped: observer.decisionsNotLogged,
    monotonicMs: () => performance.now(),
    random: Math.random,
  });
}

function createObserver(
  observer: ServiceObserver,
  agent: AdminAgent,
  logDecision: LogDecision | undefined,
  log: Logger,
): Observer {
  const answered = (request: WireRequest, answer: Answer): void => {
    observer.answered(request.domain, answer);
    agent.answered(request, answer);
  };
  return {
    answered: logDecision
      ? (request, answer) => {
          answered(request, answer);
          logDecision(request, answer);
        }
      : answered,
    failed({ details }, cause) {
      observer.failed(cause);
      if (details === INTERNAL_ERROR) log.error({ err: cause }, 'a request failed because of a bug');
      else log.debug(`a request failed: ${details}`);
    },
  };
}
