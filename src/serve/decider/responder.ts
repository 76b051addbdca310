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
  type MissedBy,
  type Observer,
} from '../../edge/rls/service.ts';
import { createStopwatch } from '../../engine/backends/lateness.ts';
import { findCounter } from '../../engine/decide/counter-key.ts';
import { type Answer, type Decider, InvalidRequest } from '../../engine/decide/decide.ts';
import { createReservations, type Reservations } from '../../engine/decide/reservations.ts';
import { createSlots } from '../../engine/decide/slots.ts';
import { awaitStore } from '../../engine/open/store.ts';
import type { WireRequest } from '../../engine/wire/wire.ts';
import { AdminAgent } from '../../operate/admin/agent.ts';
import type { Evidence } from '../../parts/findings/evidence.ts';
import { createDecisionLog, type LogDecision } from '../../parts/decision-log/decision-log.ts';
import { readFigures } from '../../operate/observe/figures.ts';
import { createDecisionSink } from '../../operate/observe/log.ts';
import { undecidedBy } from '../../operate/observe/stats.ts';
import { createStoreMeter } from '../../operate/observe/store-meter.ts';
import type { ReportedFigures } from '../../operate/observe/table.ts';
import { offerServices } from '../../parts/parts.ts';
import type { Settings } from '../../settings/settings.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import { openParts } from '../parts/start-up.ts';
import type { DeciderCore } from './core.ts';
import { openDeciderParts } from './parts.ts';
import type { ServiceObserver } from './reporter.ts';
import { openCallerServers, type Servers } from './servers.ts';
import { scratchRules, warmUp } from './warm-up.ts';

interface ObservedCore {
  readonly core: DeciderCore;
  readonly serviceObserver: ServiceObserver;
}

/** Opens everything that answers requests in this process, except the servers. */
export function openResponder(settings: Settings, { core, serviceObserver }: ObservedCore, context: ProcessContext) {
  const { clock } = context;
  const { store, decider: plain, extras, hash, evidence } = core;
  return openParts(async (add) => {
    const parts = add(await openDeciderParts(settings, { core, serviceObserver }, context));
    const { watched, decider } = parts;
    const agent = add(
      new AdminAgent({
        decider: core.explaining,
        extras,
        clock,
        evidence,
        every,
        ...settings.agent,
        askPart: (name, question) => parts.opened.get(name)?.asked?.(question as never), // asked by the same part
        ledger: store.ledger,
        records: store.records,
        usage: store.usage,
      }),
    );
    const held = { count: 0 };
    const noted = { serviceObserver, agent };
    const observer = createObserver(settings, { ...noted, decider, hash, more: parts.observers }, context);
    const late = { countLate: createCountLate(watched), answerKnown: createAnswerKnown(decider, extras, observer) };
    const overload = add(openOverload({ ...settings.overload, ...late, onMissed: noteMissed(noted) }));
    const running = { observer, isBehind: () => overload.queue.isBehind };
    const service = overload.counting(parts.service(createRlsService(decider, extras, observer, held)));
    const health = createHealth(() => core.readiness.state());
    return {
      /** Serves operators. */
      agent,
      figures: (): ReportedFigures =>
        readFigures({ ledger: store.ledger, memory: store.memory, overload, held, health, quotas: parts.quotas }),
      /** Exchanges with other sites; undefined if this is the only one. */
      sites: parts.sites,
      /** Opens the servers. @throws CannotStart if an address cannot be bound, or certificates cannot be used */
      async listen(onCallFinished: OnCallFinished): Promise<Servers> {
        await awaitStore(store);
        await core.shareHashKey();
        await warmWith(settings, { core, noted, overload, health, onCallFinished, decider }, context);
        for (const part of parts.opened.values()) part.start?.(running);
        observeLapses(core, serviceObserver);
        if (!store.memory)
          store.ledger.meterWith(
            createStoreMeter(serviceObserver.storeCalled, createStopwatch(monotonicMs, store.lateness)),
          );
        const onConnectionError = (code: string) => serviceObserver.connectionFailed(code);
        const onWork = overload.queue.spend;
        const reservations = noteCommits(createReservations({ ...plain, onWork }), evidence);
        const holds = createHoldsService(createSlots({ ...plain, onWork }), reservations);
        const others = [...parts.offers, ...offerServices({ decider: { ...watched, onWork }, reservations, extras })];
        const handlers = { service, overload, health, holds, others, wrapPages: parts.pages };
        return openCallerServers(settings, { core, ...handlers, onCallFinished, onConnectionError }, context);
      },
    };
  });
}

/** Reports reservations that lapse; those that no request notices are counted, too. */
function observeLapses({ store, decider, evidence }: DeciderCore, { lapsed }: Pick<ServiceObserver, 'lapsed'>): void {
  store.ledger.lapses?.listen((lapse) => {
    const rules = decider.rules();
    const counter = rules && findCounter(rules, lapse.key, decider);
    if (!counter) return;
    if (lapse.isUnnoticed) lapsed(counter, lapse.hits);
    evidence.lapsed(counter, lapse);
  });
}

interface Warming extends Pick<GrpcServerOptions, 'overload' | 'health' | 'onCallFinished'> {
  readonly core: DeciderCore;
  readonly noted: Pick<ObserverSources, 'serviceObserver' | 'agent'>;
  readonly decider: Decider;
}

/** Warms up with requests of other rules that are noted, and then forgotten; they are no usage. */
async function warmWith(
  { grpc }: Settings,
  { core, noted, decider, overload, ...handlers }: Warming,
  context: ProcessContext,
): Promise<void> {
  const services = [scratchRules(), scratchRules()].map((tree) => {
    const scratch = { ...decider, metersUsage: false, rules: () => tree };
    const observer = { answered: notePlainly(noted), failed: () => {} };
    return overload.counting(createRlsService(scratch, core.extras, observer));
  });
  await noted.serviceObserver.ignore(() => warmUp(grpc.transport, { services, overload, ...handlers }, context));
  noted.agent.clear();
  const { refusals } = core.store.ledger;
  refusals?.clear();
  refusals?.resetCounts();
}

/** Notes commits, since callers may reserve by the Rate Limit Service and commit otherwise. */
const noteCommits = ({ reserve, commit }: Reservations, evidence: Evidence): Reservations => ({
  reserve,
  commit(request, caller) {
    evidence.committed(request.domain);
    return commit(request, caller);
  },
});

interface ObserverSources {
  readonly serviceObserver: ServiceObserver;
  readonly agent: AdminAgent;
  readonly decider: Pick<Decider, 'rules' | 'counters'>;
  /** Hashes values; undefined if they are logged unchanged. */
  readonly hash: Hash | undefined;
  /** Of optional capabilities. */
  readonly more: readonly Observer['answered'][];
}

/** Notifies all observers of answers. */
function createObserver(settings: Settings, sources: ObserverSources, { log }: ProcessContext): Observer {
  const { serviceObserver, agent, more } = sources;
  const logDecision = openDecisionLog(settings, sources, log);
  const answered = notePlainly(sources);
  const isMore = logDecision !== undefined || more.length > 0;
  return {
    answered: isMore
      ? (request, answer, caller) => {
          answered(request, answer, caller);
          logDecision?.(request, answer);
          for (const note of more) note(request, answer, caller);
        }
      : answered,
    failed({ details }, cause, call) {
      serviceObserver.failed(cause);
      if (cause instanceof InvalidRequest && call) agent.evidence.invalid(call.request, call.caller);
      else agent.evidence.undecided(undecidedBy(cause), call?.caller);
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

const noteMissed =
  ({ serviceObserver, agent }: Pick<ObserverSources, 'serviceObserver' | 'agent'>) =>
  (by: MissedBy, caller?: Pick<Caller, 'header' | 'connection'>): void => {
    serviceObserver.missed(by);
    agent.evidence.undecided(by, caller);
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
