import cluster from 'node:cluster';
import type { AdminAgent } from '../admin/agent.ts';
import type { ArrivalLog } from '../advise/arrival-log.ts';
import { monotonicMs } from '../clock.ts';
import type { Answer, Decider } from '../decide.ts';
import type { Hash } from '../hashed.ts';
import { createDecisionLog, type LogDecision } from '../observe/decision-log.ts';
import { createDecisionSink } from '../observe/log.ts';
import type { ServiceObserver } from '../observe/service-observer.ts';
import type { ProcessContext } from '../process-context.ts';
import type { Recording } from '../record/open.ts';
import { INTERNAL_ERROR, type Observer } from '../rls/service.ts';
import type { WireRequest } from '../rls/wire.ts';
import type { Settings } from '../settings.ts';

export interface ObserverSources {
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
