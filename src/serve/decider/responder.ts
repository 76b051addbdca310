import cluster from 'node:cluster';
import { every, monotonicMs } from '../../base/clock.ts';
import type { Hash } from '../../base/hashed.ts';
import type { GrpcServerOptions, OnCallFinished } from '../../edge/grpc/grpc-server.ts';
import { openOverload } from '../../edge/overload/overload.ts';
import { createCountLate } from '../../edge/rls/count-late.ts';
import { createHealth } from '../../edge/rls/health.ts';
import { createHoldsService } from '../../edge/rls/holds.ts';
import {
  type Caller,
  createAnswerKnown,
  createRlsService,
  INTERNAL_ERROR,
  type Observer,
} from '../../edge/rls/service.ts';
import type { SitesReport } from '../../edge/sites/site-counts.ts';
import { createStopwatch } from '../../engine/backends/lateness.ts';
import { type Answer, type Decider, InvalidRequest } from '../../engine/decide/decide.ts';
import { createReservations, type Reservations } from '../../engine/decide/reservations.ts';
import { createSlots } from '../../engine/decide/slots.ts';
import { awaitStore } from '../../engine/open/store.ts';
import type { WireRequest } from '../../engine/wire/wire.ts';
import type { ArrivalLog } from '../../lab/advise/arrival-log.ts';
import { AdminAgent } from '../../operate/admin/agent.ts';
import { followCandidate } from '../../operate/candidate/followed.ts';
import type { Evidence } from '../../operate/findings/evidence.ts';
import { createDecisionLog, type LogDecision } from '../../operate/observe/decision-log.ts';
import { readFigures } from '../../operate/observe/figures.ts';
import { createDecisionSink } from '../../operate/observe/log.ts';
import { createStoreMeter } from '../../operate/observe/store-meter.ts';
import type { ReportedFigures } from '../../operate/observe/table.ts';
import { failingText } from '../../operate/observe/work-state.ts';
import { offerServices } from '../../parts/parts.ts';
import type { Settings } from '../../settings/settings.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import { openParts } from '../parts/start-up.ts';
import type { DeciderCore } from './core.ts';
import type { Recording } from './record.ts';
import type { ServiceObserver } from './reporter.ts';
import { openCallerServers, type Servers } from './servers.ts';
import { openTracing } from './tracing.ts';
import { warmUp } from './warm-up.ts';

interface ObservedCore {
  readonly core: DeciderCore;
  readonly serviceObserver: ServiceObserver;
}

/** Opens everything that answers requests in this process, except the servers. */
export function openResponder(settings: Settings, { core, serviceObserver }: ObservedCore, context: ProcessContext) {
  const { clock } = context;
  const { store, decider: plain, extras, hash, evidence } = core;
  return openParts(async (add) => {
    const tracing = settings.tracing && add(await openTracing(settings.tracing, context));
    const { sites, recording, quotas, arrivals, watched, decider } = add(
      await openOptional(settings, { core, serviceObserver }, context),
    );
    const agent = add(
      new AdminAgent({
        decider: core.explaining,
        extras,
        clock,
        evidence,
        every,
        ...settings.agent,
        record: recording && ((untilMs) => recordUntil(recording, untilMs)),
        ledger: store.ledger,
        records: store.records,
        usage: store.usage,
        ...(quotas && { quotas: (query) => quotas.report(query) }),
        ...(sites && { sites: (count) => sites.shared(count) }),
        candidate: (keys, rule) => candidate.report(keys, rule),
        ...(arrivals && { arrivals: (sample) => arrivals.take(sample) }),
      }),
    );
    const held = { count: 0 };
    const noted = { serviceObserver, agent };
    const observer = createObserver(settings, { ...noted, decider, hash, recording, arrivals }, context);
    const timed = store.memory ? decider : withTimes(decider, () => candidate.isTried());
    const unrecorded = createRlsService(timed, extras, observer, held);
    const untraced = recording ? recording.recorder.service(unrecorded) : unrecorded;
    const late = { countLate: createCountLate(watched), answerKnown: createAnswerKnown(timed, extras, observer) };
    const overload = add(openOverload({ ...settings.overload, ...late, onMissed: serviceObserver.missed }));
    const isBehind = (): boolean => overload.queue.isBehind;
    const candidate = add(openCandidate(settings, { core, observer, isBehind }, context));
    const service = overload.counting(tracing ? tracing.service(untraced) : untraced);
    const health = createHealth(() => core.readiness.state());
    return {
      /** Serves operators. */
      agent,
      figures: (): ReportedFigures =>
        readFigures({ ledger: store.ledger, memory: store.memory, overload, held, health, quotas }),
      /** Exchanges with other sites; undefined if this is the only one. */
      sites: (): SitesReport | undefined => sites?.report(),
      /** Opens the servers. @throws CannotStart if an address cannot be bound, or certificates cannot be used */
      async listen(onCallFinished: OnCallFinished): Promise<Servers> {
        await awaitStore(store);
        await core.shareHashKey();
        await warmWith(settings, { core, noted, overload, health, onCallFinished, decider: timed }, context);
        observeStore(settings, { core, serviceObserver }, tracing);
        const onConnectionError = (code: string) => serviceObserver.connectionFailed(code);
        const onWork = overload.queue.spend;
        const reservations = noteCommits(createReservations({ ...plain, onWork }), evidence);
        const holds = createHoldsService(createSlots({ ...plain, onWork }), reservations);
        const others = offerServices({ decider: { ...watched, onWork }, reservations, extras });
        const handlers = { service, overload, health, holds, others, quotas, routes: tracing?.routes };
        return openCallerServers(settings, { core, ...handlers, onCallFinished, onConnectionError }, context);
      },
    };
  });
}

/** Traces and measures the calls to the store. */
function observeStore(
  { counters }: Settings,
  { core: { store }, serviceObserver }: ObservedCore,
  tracing: Awaited<ReturnType<typeof openTracing>> | undefined,
): void {
  const spanName = storeSpans[counters.store.kind];
  if (tracing && spanName) store.ledger.traceWith(tracing.backend(spanName));
  if (store.memory) return;
  store.ledger.meterWith(createStoreMeter(serviceObserver.storeCalled, createStopwatch(monotonicMs, store.lateness)));
}

interface Warming extends Pick<GrpcServerOptions, 'overload' | 'health' | 'onCallFinished'> {
  readonly core: DeciderCore;
  readonly noted: Pick<ObserverSources, 'serviceObserver' | 'agent'>;
  readonly decider: Decider;
}

/** Warms up with requests that are noted, and then forgotten; they are no usage. */
async function warmWith(
  { grpc }: Settings,
  { core, noted, decider, overload, ...handlers }: Warming,
  context: ProcessContext,
): Promise<void> {
  const unmetered = decider.metersUsage ? { ...decider, metersUsage: false } : decider;
  const observer = { answered: notePlainly(noted), failed: () => {} };
  const service = overload.counting(createRlsService(unmetered, core.extras, observer));
  const warmed = { core, service, overload, ...handlers };
  await noted.serviceObserver.ignore(() => warmUp(grpc.transport, warmed, context));
  noted.agent.clear();
}

const recordUntil = ({ recorder, state }: Recording, untilMs: number | undefined) => ({
  untilMs: recorder.record(untilMs),
  failing: state.failing && failingText(state.failing),
});

/** Notes commits, since callers may reserve by the Rate Limit Service and commit otherwise. */
const noteCommits = ({ reserve, commit }: Reservations, evidence: Evidence): Reservations => ({
  reserve,
  commit(request, caller) {
    evidence.committed(request.domain);
    return commit(request, caller);
  },
});

/** Opens the optional parts that requests pass through; modules of disabled parts are not loaded. */
function openOptional(settings: Settings, { core, serviceObserver }: ObservedCore, context: ProcessContext) {
  const { sites: siteSettings, counters, recording: recordTo, rlqs } = settings;
  return openParts(async (add) => {
    const sites =
      siteSettings && add(await (await import('./sites.ts')).openSites(siteSettings, { core, counters }, context));
    const watched = sites ? { ...core.decider, ledger: sites.ledger } : core.decider;
    const recorded = { decider: watched, onRecorded: serviceObserver.recorded };
    const recording = recordTo && add(await (await import('./record.ts')).openRecording(recordTo, recorded, context));
    return {
      sites,
      recording,
      /** `decider` uses hits that sites lend, and its decisions are recorded. */
      watched,
      decider: recording?.decider ?? watched,
      quotas: rlqs.isOn ? await (await import('./rlqs.ts')).openQuotas(settings, core, context) : undefined,
      arrivals:
        settings.advice.maxBytes > 0
          ? new (await import('../../lab/advise/arrival-log.ts')).ArrivalLog(context.clock)
          : undefined,
    };
  });
}

/** The names of a store's spans; none for counters in memory. */
const storeSpans = {
  memory: undefined,
  redis: 'Redis Pipeline Execution',
  memcache: 'Memcached Fetch Execution',
} as const;

interface ObserverSources {
  readonly serviceObserver: ServiceObserver;
  readonly agent: AdminAgent;
  readonly decider: Pick<Decider, 'rules' | 'counters'>;
  /** Hashes values; undefined if they are logged unchanged. */
  readonly hash: Hash | undefined;
  /** The recording, if requests are recorded. */
  readonly recording: Recording | undefined;
  /** Source of advice; undefined if arrivals are not followed. */
  readonly arrivals: ArrivalLog | undefined;
}

/** Notifies all observers of answers. */
function createObserver(settings: Settings, sources: ObserverSources, { log }: ProcessContext): Observer {
  const { serviceObserver, agent, recording, arrivals } = sources;
  const logDecision = openDecisionLog(settings, sources, log);
  const answered = notePlainly(sources);
  const isMore = logDecision !== undefined || recording !== undefined || arrivals !== undefined;
  return {
    answered: isMore
      ? (request, answer, caller) => {
          recording?.recorder.answered(request, answer, caller.timeoutMs);
          answered(request, answer, caller);
          logDecision?.(request, answer);
          arrivals?.answered(request, answer);
        }
      : answered,
    failed({ details }, cause, call) {
      serviceObserver.failed(cause);
      if (call && cause instanceof InvalidRequest) agent.evidence.invalid(call.request, call.caller);
      if (details === INTERNAL_ERROR) log.error({ err: cause }, 'a request failed because of a bug');
      else log.debug(`a request failed: ${details}`);
    },
  };
}

/** Notes answers for statistics, and for operators. */
const notePlainly =
  ({ serviceObserver, agent }: Pick<ObserverSources, 'serviceObserver' | 'agent'>): Observer['answered'] =>
  (request: WireRequest, answer: Answer, caller: Caller) => {
    serviceObserver.answered(request.domain, answer);
    agent.answered(request, answer, caller);
  };

/** Undefined if no decisions are logged. */
function openDecisionLog(
  settings: Settings,
  { decider: { rules, counters }, hash, serviceObserver }: ObserverSources,
  log: ProcessContext['log'],
): LogDecision | undefined {
  const worker = cluster.worker?.id;
  const { format } = settings.log;
  return createDecisionLog({
    rules,
    counters,
    ...settings.decisionLog,
    shownValue: hash,
    debug: log.isLevelEnabled('debug') ? log : undefined,
    log: createDecisionSink({ level: 'info', format, ...(worker !== undefined && { worker }) }),
    onDropped: serviceObserver.decisionsNotLogged,
    monotonicMs,
    random: Math.random,
  });
}

/** Has stores with a clock of their own report the time of each charge, at which the candidate decides as well. */
const withTimes = (decider: Decider, isTried: () => boolean): Decider => ({
  ...decider,
  ledger: {
    debit: (debits, how) => decider.ledger.debit(debits, isTried() ? { ...how, receipts: true } : how),
    recall: (debits, spend) => decider.ledger.recall?.(debits, spend),
  },
});

interface Tried {
  readonly core: DeciderCore;
  /** Notified of the answers. */
  readonly observer: Observer;
  readonly isBehind: () => boolean;
}

/** Tries the candidate on the answers that the observer receives, while there is one. */
const openCandidate = (settings: Settings, { core, observer, isBehind }: Tried, context: ProcessContext) =>
  followCandidate({
    ...core.rules,
    split: settings.counters.split,
    observer,
    openTrial: async () => (await import('./trial.ts')).openTrial(settings, { ...core, isBehind }, context),
    onError: (error) => context.log.error({ err: error }, 'the candidate cannot be tried'),
  });
