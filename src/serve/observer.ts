import cluster from 'node:cluster';
import { monotonicMs } from '../base/clock.ts';
import type { Hash } from '../base/hashed.ts';
import { INTERNAL_ERROR, type Observer } from '../edge/rls/service.ts';
import type { Answer, Decider } from '../engine/decide/decide.ts';
import type { WireRequest } from '../engine/wire/wire.ts';
import type { ArrivalLog } from '../lab/advise/arrival-log.ts';
import type { AdminAgent } from '../operate/admin/agent.ts';
import { createDecisionLog, type LogDecision } from '../operate/observe/decision-log.ts';
import { createDecisionSink } from '../operate/observe/log.ts';
import type { ServiceObserver } from '../operate/observe/service-observer.ts';
import type { Settings } from '../settings/settings.ts';
import type { Recording } from './open/record.ts';
import type { ProcessContext } from './parts/process-context.ts';

interface ObserverSources {
  readonly serviceObserver: ServiceObserver;
  readonly agent: AdminAgent;
  readonly decider: Pick<Decider, 'rules' | 'counters'>;
  /** Undefined: values are logged unchanged. */
  readonly hash: Hash | undefined;
  /** Undefined: requests are not recorded. */
  readonly recording: Recording | undefined;
  /** Undefined: arrivals are not followed. */
  readonly arrivals: ArrivalLog | undefined;
}

/** Notifies all observers of answers. */
export function createObserver(settings: Settings, sources: ObserverSources, { log }: ProcessContext): Observer {
  const { serviceObserver, agent, recording, arrivals } = sources;
  const logDecision = openDecisionLog(settings, sources, log);
  const answered = (request: WireRequest, answer: Answer): void => {
    serviceObserver.answered(request.domain, answer);
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
      serviceObserver.failed(cause);
      if (details === INTERNAL_ERROR) log.error({ err: cause }, 'a request failed because of a bug');
      else log.debug(`a request failed: ${details}`);
    },
  };
}

/** Undefined if no decisions are logged. */
function openDecisionLog(
  settings: Settings,
  { decider: { rules, counters }, hash, serviceObserver }: ObserverSources,
  log: ProcessContext['log'],
): LogDecision | undefined {
  const worker = cluster.worker?.id;
  const { format } = settings.log;
  return createDecisionLog({
    ...{ rules, counters, ...settings.decisionLog },
    shownValue: hash,
    debug: log.isLevelEnabled('debug') ? log : undefined,
    log: createDecisionSink({ level: 'info', format, ...(worker !== undefined && { worker }) }),
    onDropped: serviceObserver.decisionsNotLogged,
    monotonicMs,
    random: Math.random,
  });
}
