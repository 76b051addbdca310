import type { Worker } from 'node:cluster';
import type { Clock } from '../../clock.ts';
import { createLogger } from '../../observe/log.ts';
import type { Settings } from '../../settings.ts';
import { openAnswering } from '../answering.ts';
import { openBasis } from '../basis.ts';
import { CannotStart } from '../cannot-start.ts';
import { createParts } from '../parts.ts';
import type { FromWorker, ToWorker } from './messages.ts';
import { createReporter } from './reporter.ts';

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
  const reporter = createReporter(settings.NEAR_LIMIT_RATIO);
  const parts = createParts();
  const tell = (message: FromWorker) => new Promise<void>((resolve) => void self.send(message, () => resolve()));
  let report = () => reporter.take(undefined);
  let closing: Promise<void> | undefined;
  const end = async (): Promise<void> => {
    await parts.close();
    await tell({ kind: 'report', report: report() });
    self.disconnect();
  };
  const close = (): Promise<void> => {
    closing ??= end();
    return closing;
  };
  self.on('message', (message: ToWorker) => {
    if (message.kind === 'close') void close();
    else void tell({ kind: 'report', number: message.number, report: report() });
  });

  try {
    const options = { clock, onLoad: () => {}, isClosing: () => closing !== undefined };
    const basis = parts.add(await openBasis(settings, options, log));
    report = () => reporter.take(basis.counters);
    const { grpc, http } = parts.add(await openAnswering(settings, basis, reporter, clock, log));
    await tell({ kind: 'listening', at: { grpc, http } });
  } catch (error) {
    if (!(error instanceof CannotStart)) throw error;
    await tell({ kind: 'cannot_start', message: error.message });
    await close();
  }
  return close;
}
