import cluster from 'node:cluster';
import { monotonicMs } from '../../base/clock.ts';
import { createDecisionSink } from '../../operate/observe/log.ts';
import type { OpenDeciderPart } from '../../serve/decider/part.ts';
import { createDecisionLog } from './decision-log.ts';

/** Logs decisions: for programs by DECISION_LOG, for people at the log level debug. */
export const openDecisionLog: OpenDeciderPart = ({ core, serviceObserver }, settings, { log }) => {
  const worker = cluster.worker?.id;
  const { format } = settings.log;
  const answered = createDecisionLog({
    ...settings.decisionLog,
    rules: core.decider.rules,
    counters: core.decider.counters,
    shownValue: core.hash,
    debug: log.isLevelEnabled('debug') ? log : undefined,
    log: createDecisionSink({ level: 'info', format, ...(worker !== undefined && { worker }) }),
    onDropped: serviceObserver.decisionsNotLogged,
    monotonicMs,
    random: Math.random,
  });
  return answered ? { answered } : {};
};
