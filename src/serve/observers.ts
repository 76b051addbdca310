import cluster from 'node:cluster';
import type { AdminAgent } from '../admin/agent.ts';
import type { ArrivalLog } from '../advise/arrival-log.ts';
import { type FollowedCandidate, followCandidate } from '../candidate/followed.ts';
import { type Clock, monotonicMs } from '../clock.ts';
import type { Answer, Decider } from '../decide.ts';
import { hashed } from '../hashed.ts';
import { createDecisionLog, type LogDecision } from '../observe/decision-log.ts';
import { createDecisionSink } from '../observe/log.ts';
import type { ServiceObserver } from '../observe/service-observer.ts';
import { INTERNAL_ERROR, type Observer } from '../rls/service.ts';
import type { WireRequest } from '../rls/wire.ts';
import type { Settings } from '../settings.ts';
import type { ProcessContext } from './context.ts';
import type { Core } from './core.ts';
import type { Recording } from './recording.ts';

/** Undefined if requests are not recorded: then nothing of it is loaded. */
export async function openRecordingOf(
  { recording: options }: Pick<Settings, 'recording'>,
  decider: Decider,
  observer: ServiceObserver,
  context: ProcessContext,
): Promise<Recording | undefined> {
  if (!options) return undefined;
  const { openRecording } = await import('./recording.ts');
  return openRecording(options, decider, observer.recorded, context);
}

/** Undefined if arrivals are not followed: then nothing of it is loaded. */
export async function openArrivals(
  { advice }: Pick<Settings, 'advice'>,
  clock: Clock,
): Promise<ArrivalLog | undefined> {
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
    monotonicMs,
    random: Math.random,
  });
}

export interface ObserverSources {
  readonly serviceObserver: ServiceObserver;
  readonly agent: AdminAgent;
  readonly decider: Pick<Decider, 'rules' | 'counters'>;
  /** Undefined: requests are not recorded. */
  readonly recording: Recording | undefined;
  /** Undefined: arrivals are not followed. */
  readonly arrivals: ArrivalLog | undefined;
}

/** Notifies all that observe answers. */
export function createObserver(
  settings: Settings,
  { serviceObserver, agent, decider, recording, arrivals }: ObserverSources,
  context: ProcessContext,
): Observer {
  const { log } = context;
  const logDecision = openDecisionLog(settings, decider, serviceObserver, context);
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

export interface CandidateSources {
  readonly core: Pick<Core, 'rules' | 'store'>;
  /** What the live rules are decided with. */
  readonly decider: Decider;
  readonly observer: Observer;
  /** Whether this process refuses calls since it has too much to do. */
  readonly isLate: () => boolean;
}

/** Tries the candidate on what the observer is notified of, while there is one. */
export const openCandidate = (
  settings: Settings,
  { core: { rules, store }, decider, observer, isLate }: CandidateSources,
  context: ProcessContext,
): FollowedCandidate =>
  followCandidate({
    ...{ candidate: rules.candidate, book: rules.book, split: settings.counters.split, observer },
    async openTrial() {
      const { openTrial } = await import('./trial.ts');
      return openTrial(settings, { store, decider, isLate }, context);
    },
    onError: (error) => context.log.error({ err: error }, 'the candidate cannot be tried'),
  });
