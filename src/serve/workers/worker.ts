import type { Worker } from 'node:cluster';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock } from '../../clock.ts';
import { createLogger } from '../../observe/log.ts';
import type { Settings } from '../../settings.ts';
import { openAnswering } from '../answering.ts';
import { openBasis } from '../basis.ts';
import { CannotStart } from '../cannot-start.ts';
import { createParts } from '../parts.ts';
import type { FromWorker, ToWorker } from './messages.ts';
import { createReporter, partsOf } from './reporter.ts';
import { receiveRules } from './rules.ts';

/**
 * Answers requests as one of several processes, and tells the primary one of it. What keeps it from starting is told there as well.
 *
 * A worker whose primary process is gone ends at once: that is what Node does where nobody has asked it to disconnect.
 *
 * @param self  this process, as the cluster knows it
 * @returns     what answers what is under way, reports for the last time, and lets the process end
 */
export async function serveAsWorker(settings: Settings, clock: Clock, self: Worker): Promise<() => Promise<void>> {
  const log = createLogger({ level: settings.LOG_LEVEL, format: settings.LOG_FORMAT, worker: self.id });
  const reporter = createReporter(settings.NEAR_LIMIT_RATIO, settings.STATISTICS_MAX_BYTES);
  const parts = createParts();
  const rules = receiveRules(log);
  const tell = (message: FromWorker) => new Promise<void>((resolve) => void self.send(message, () => resolve()));
  let takeReport = () => reporter.take(undefined);
  /** The report that is being sent, in parts. */
  let reporting = Promise.resolve();
  const report = (): Promise<void> => {
    reporting = reporting.then(async () => {
      for (const part of partsOf(takeReport())) {
        await tell({ kind: 'report', report: part });
        await nextTurn();
      }
    });
    return reporting;
  };
  let closing: Promise<void> | undefined;
  const end = async (): Promise<void> => {
    await parts.close();
    await report();
    self.disconnect();
  };
  const close = (): Promise<void> => {
    closing ??= end();
    return closing;
  };
  self.on('message', (message: ToWorker) => {
    switch (message.kind) {
      case 'close':
        return void close();
      case 'report':
        return void report().then(() => tell({ kind: 'reported', number: message.number }));
      default:
        return rules.receive(message);
    }
  });

  try {
    const takeRules = async () => {
      await tell({ kind: 'takes_rules' });
      await rules.arrived;
      return rules;
    };
    const options = { clock, openRules: takeRules, isClosing: () => closing !== undefined };
    const basis = parts.add(await openBasis(settings, options, log));
    takeReport = () => reporter.take(basis.counters);
    const { grpc, http, load } = parts.add(await openAnswering(settings, basis, reporter, clock, log));
    takeReport = () => reporter.take(basis.counters, load());
    await tell({ kind: 'listening', at: { grpc, http } });
  } catch (error) {
    if (!(error instanceof CannotStart)) throw error;
    await tell({ kind: 'cannot_start', message: error.message });
    await close();
  }
  return close;
}
