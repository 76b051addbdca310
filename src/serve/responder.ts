import cluster from 'node:cluster';
import { AdminAgent } from '../admin/agent.ts';
import type { ArrivalLog } from '../advise/arrival-log.ts';
import type { Clock } from '../clock.ts';
import type { Answer, Decider } from '../decide.ts';
import { hashed } from '../hashed.ts';
import { createDecisionLog, type LogDecision } from '../observe/decision-log.ts';
import { createDecisionSink } from '../observe/log.ts';
import type { Load } from '../observe/service-gauges.ts';
import { openOverload } from '../overload/overload.ts';
import type { QuotaService } from '../rlqs/quota-service.ts';
import { createResponseHeaders } from '../rls/headers.ts';
import { createHealth } from '../rls/health.ts';
import { createHoldsService } from '../rls/holds.ts';
import { createKuadrantService } from '../rls/kuadrant.ts';
import { createDynamicMetadata } from '../rls/metadata.ts';
import { createRlsService, type Extras, INTERNAL_ERROR, type Observer } from '../rls/service.ts';
import type { WireRequest } from '../rls/wire.ts';
import type { RuleTree } from '../rules/tree.ts';
import type { Settings } from '../settings.ts';
import { createKuadrantLimits } from '../slots/kuadrant.ts';
import { createReservations } from '../slots/reservations.ts';
import { createSlots } from '../slots/slots.ts';
import type { OnCallFinished } from '../transport/grpc-server.ts';
import { openCandidate } from './candidate.ts';
import type { Core } from './core.ts';
import { type Add, openParts, type Part, type ProcessContext } from './parts.ts';
import type { openQuotas } from './quotas.ts';
import type { Recording } from './recording.ts';
import { openServers, type Servers } from './servers.ts';
import type { OpenSites, openSites } from './sites.ts';
import { awaitStore, countersOf, every } from './store.ts';
import { openTracing } from './tracing.ts';

/** Notified of the outcome of requests. */
export interface ServiceObserver {
  answered(domain: string, answer: Answer): void;
  /** A request failed. */
  failed(cause: unknown): void;
  /** A gRPC connection or stream was ended with this error code. */
  connectionFailed(code: string): void;
  /** A call was refused because of overload. */
  shed(): void;
  /** Requests were recorded; others were not: too many, or the files could not be written. */
  recorded(requests: number, notRecorded: number): void;
  /** Decisions exceeded the limit of the decision log. */
  decisionsNotLogged(decisions: number): void;
}

/** Decides requests in this process. */
export interface Responder extends Part {
  /** Serves operators. */
  readonly agent: AdminAgent;
  load(): Load;
  /**
   * Opens the gRPC and HTTP servers.
   *
   * @throws CannotStart if an address cannot be bound, or certificates cannot be used
   */
  listen(onCallFinished: OnCallFinished): Promise<Servers>;
}

/** The dependencies of decisions. */
export function deciderOf(
  { decisions, counters, admin }: Settings,
  { store, rules }: Pick<Core, 'store' | 'rules'>,
  clock: Clock,
) {
  const { ledger, overrides, estimates } = store;
  const named = admin.hashKeys ? withHashedNames(rules.book.rules) : rules.book.rules;
  const own = { ledger, overrides, estimates, clock, counters: countersOf(counters, clock) };
  return { ...decisions, rules: named, ...own };
}

/** The same rules, by which statistics name callers' values by their hashes. */
function withHashedNames(rules: () => RuleTree | undefined): () => RuleTree | undefined {
  let source: RuleTree | undefined;
  let named: RuleTree | undefined;
  return () => {
    const tree = rules();
    if (tree !== source) named = tree && { ...tree, shownValue: hashed };
    source = tree;
    return named;
  };
}

/** Opens what answers requests, without its servers. */
export function openResponder(
  settings: Settings,
  core: Core,
  serviceObserver: ServiceObserver,
  context: ProcessContext,
): Promise<Responder> {
  const { clock } = context;
  const { store, rules } = core;
  return openParts(async (add) => {
    const tracing = settings.tracing && add(await openTracing(settings.tracing, context));
    const spanName = storeSpans[settings.counters.store.kind];
    if (tracing && spanName) store.ledger.traceWith(tracing.backend(spanName));
    const plain = deciderOf(settings, core, clock);
    const sites = settings.sites && add(await loadSites(settings.sites, settings.counters, core, context));
    const watched = sites ? { ...plain, ledger: sites.ledger } : plain;
    const recording = await openRecordingOf(settings, watched, serviceObserver, context, add);
    const decider = recording?.decider ?? watched;
    const extras = extrasOf(settings.answers);
    const quotas = settings.rlqs.isOn ? await loadQuotas(settings, core, context) : undefined;
    const arrivals = await openArrivals(settings, clock);
    const agent = add(
      new AdminAgent({
        ...{ decider: plain, extras, clock, every, ...settings.agent, record: recording?.record },
        ...{ packed: rules.book.packed, source: rules.description, ledger: store.ledger },
        ...(quotas && { quotas: (query) => quotas.report(query) }),
        candidate: (keys, rule) => candidate.report(keys, rule),
        ...(arrivals && { arrivals: (sample) => arrivals.take(sample) }),
      }),
    );
    const held = { count: 0 };
    const logDecision = openDecisionLog(settings, decider, serviceObserver, context);
    const observer = createObserver(serviceObserver, agent, { logDecision, recording, arrivals }, context);
    const unrecorded = createRlsService(decider, extras, observer, held);
    const untraced = recording ? recording.service(unrecorded) : unrecorded;
    const overload = add(openOverload({ ...settings.overload, onShed: () => serviceObserver.shed() }));
    const isLate = (): boolean => overload.shedShare() > 0;
    const candidate = add(openCandidate(settings, { core, decider: plain, observer, isLate }, context));
    const service = overload.counting(tracing ? tracing.service(untraced) : untraced);
    const health = createHealth(() => core.readiness.state());
    return {
      agent,
      load: () => ({
        inFlight: overload.inFlight(),
        held: held.count,
        connections: overload.memory.connections,
        watches: health.openWatches,
        shedShare: overload.shedShare(),
        callerBytes: overload.memory.bytes,
        callerMaxBytes: overload.memory.maxBytes,
        ...(quotas && { quotas: quotas.counts }),
        ...(store.ledger.pendingCommits && { commits: store.ledger.pendingCommits.counts() }),
        ...(sites && { sites: sites.report() }),
      }),
      async listen(onCallFinished: OnCallFinished) {
        await awaitStore(store);
        const onConnectionError = (code: string) => serviceObserver.connectionFailed(code);
        const reservations = createReservations(plain);
        const holds = createHoldsService(createSlots(plain), reservations);
        const kuadrant = createKuadrantService(createKuadrantLimits(watched, reservations), extras);
        const routes = tracing?.routes;
        const handlers = { service, overload, health, holds, kuadrant, quotas, routes };
        return openServers(settings, core, { ...handlers, onCallFinished, onConnectionError }, context);
      },
    };
  });
}

/** Loaded only where it is on. */
async function loadQuotas(...options: Parameters<typeof openQuotas>): Promise<QuotaService> {
  return (await import('./quotas.ts')).openQuotas(...options);
}

/** Loaded only where there are several sites. */
async function loadSites(...options: Parameters<typeof openSites>): Promise<OpenSites> {
  return (await import('./sites.ts')).openSites(...options);
}

/** The names of a store's spans; none for counters in memory. */
const storeSpans = {
  memory: undefined,
  redis: 'Redis Pipeline Execution',
  memcache: 'Memcached Fetch Execution',
} as const;

/** Headers and metadata of answers. */
export const extrasOf = ({ headers, metadata }: Settings['answers']): Extras => ({
  headers: createResponseHeaders(headers),
  metadata: createDynamicMetadata(metadata),
});

/** Undefined if requests are not recorded: then nothing of it is loaded. */
async function openRecordingOf(
  { recording: options }: Pick<Settings, 'recording'>,
  decider: Decider,
  observer: ServiceObserver,
  context: ProcessContext,
  add: Add,
): Promise<Recording | undefined> {
  if (!options) return undefined;
  const { openRecording } = await import('./recording.ts');
  return add(await openRecording(options, decider, observer.recorded, context));
}

/** Undefined if arrivals are not followed: then nothing of it is loaded. */
async function openArrivals({ advice }: Pick<Settings, 'advice'>, clock: Clock): Promise<ArrivalLog | undefined> {
  if (advice.maxBytes === 0) return undefined;
  const { ArrivalLog } = await import('../advise/arrival-log.ts');
  return new ArrivalLog(clock);
}

/** Undefined if no decisions are logged. */
function openDecisionLog(
  settings: Settings,
  { rules, counters }: Pick<Decider, 'rules' | 'counters'>,
  observer: ServiceObserver,
  { log }: ProcessContext,
): LogDecision | undefined {
  const worker = cluster.worker?.id;
  const { format } = settings.log;
  return createDecisionLog({
    ...{ rules, counters, ...settings.decisionLog },
    shownValue: settings.admin.hashKeys ? hashed : undefined,
    debug: log.isLevelEnabled('debug') ? log : undefined,
    log: createDecisionSink({ level: 'info', format, ...(worker !== undefined && { worker }) }),
    onDropped: observer.decisionsNotLogged,
    monotonicMs: () => performance.now(),
    random: Math.random,
  });
}

/** What else observes answers; undefined: it is off. */
interface FurtherObservers {
  readonly logDecision: LogDecision | undefined;
  readonly recording: Recording | undefined;
  readonly arrivals: ArrivalLog | undefined;
}

function createObserver(
  observer: ServiceObserver,
  agent: AdminAgent,
  { logDecision, recording, arrivals }: FurtherObservers,
  { log }: ProcessContext,
): Observer {
  const answered = (request: WireRequest, answer: Answer): void => {
    observer.answered(request.domain, answer);
    agent.answered(request, answer);
  };
  const isMore = logDecision !== undefined || recording !== undefined || arrivals !== undefined;
  return {
    answered: isMore
      ? (request, answer, timeoutMs) => {
          recording?.answered(request, answer, timeoutMs);
          answered(request, answer);
          logDecision?.(request, answer);
          arrivals?.answered(request, answer);
        }
      : answered,
    failed({ details }, cause) {
      observer.failed(cause);
      if (details === INTERNAL_ERROR) log.error({ err: cause }, 'a request failed because of a bug');
      else log.debug(`a request failed: ${details}`);
    },
  };
}
