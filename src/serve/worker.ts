import type { Worker } from 'node:cluster';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock } from '../base/clock.ts';
import { takeUsable, type UsableFiles } from '../h2/listen/usable-files.ts';
import type { AdminAgent } from '../operate/admin/agent.ts';
import { createLogger } from '../operate/observe/log.ts';
import type { Settings } from '../settings/settings.ts';
import { openCore } from './core.ts';
import type { OpenRules } from './open/rules.ts';
import { contextOf } from './parts/process-context.ts';
import { CannotStart, openParts, type Part } from './parts/start-up.ts';
import { openResponder } from './responder.ts';
import type { FromWorker, Report, ToWorker } from './workers/messages.ts';
import { createReporter, partsOf } from './workers/reporter.ts';
import { type ReceivedRules, receiveRules } from './workers/rules-messages.ts';

/**
 * Answers requests as one of several processes, and reports to the primary process, even if it cannot start.
 *
 * If the primary process ends, Node ends its workers at once.
 *
 * @param self  this process as a cluster worker
 * @returns     finishes the calls in flight, sends a last report, and lets the process end
 */
export async function serveAsWorker(settings: Settings, clock: Clock, self: Worker): Promise<() => Promise<void>> {
  const log = createLogger({ ...settings.log, worker: self.id });
  const reporter = createReporter(settings.statistics.nearLimitRatio, settings.statistics.maxNameBytes);
  const rules = receiveRules(log, settings.counters.split);
  const send = (message: FromWorker) => new Promise<void>((resolve) => void self.send(message, () => resolve()));
  let takeFiles = (_: UsableFiles): void => {};
  const files = new Promise<UsableFiles>((resolve) => {
    takeFiles = resolve;
  });
  const reports = new ReportSender(send, () => reporter.take(undefined));
  let agent: AdminAgent | undefined;
  let opened: Part = { close: () => {} };
  let closing: Promise<void> | undefined;
  const end = async (): Promise<void> => {
    await opened.close();
    await reports.send();
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
      case 'ask': {
        const { number, question } = message;
        return void agent?.ask(question).then((reply) => send({ kind: 'reply', number, reply }));
      }
      case 'report':
        return void reports.send().then(() => send({ kind: 'reported', number: message.number }));
      case 'files':
        return takeFiles(message.usable);
      case 'candidate':
        return rules.receiveCandidate(message.message);
      default:
        return rules.receive(message);
    }
  });

  await send({ kind: 'takes_files' });
  takeUsable(await files);
  try {
    const answering = await openParts(async (add) => {
      const context = contextOf(clock, log, settings.recording !== undefined);
      const core = add(await openCore(settings, () => takeRules(rules, send), context));
      reports.take = () => reporter.take(core.store);
      const responder = add(await openResponder(settings, core, reporter, context));
      agent = responder.agent;
      reports.take = () => reporter.take(core.store, responder.load());
      const { grpc, http } = add(await responder.listen(reporter.onCallFinished));
      add(core.readiness);
      return { grpc, http };
    });
    opened = answering;
    await send({ kind: 'listening', at: { grpc: answering.grpc, http: answering.http } });
  } catch (error) {
    if (!(error instanceof CannotStart)) throw error;
    await send({ kind: 'cannot_start', message: error.message });
    await close();
  }
  return close;
}

/** Waits for the rules of the primary process, which alone has the details of their loading. */
async function takeRules(
  { book, candidate, arrived }: ReceivedRules,
  send: (message: FromWorker) => Promise<void>,
): Promise<OpenRules> {
  await send({ kind: 'takes_rules' });
  await arrived;
  return {
    ...{ book, candidate, description: 'the primary process', notes: [] },
    lastLoad: () => undefined,
    inForce: () => undefined,
    lastReload: () => undefined,
  };
}

/** Sends a worker's reports, one at a time. */
class ReportSender {
  /** Creates the next report. */
  take: () => Report;
  readonly #send: (message: FromWorker) => Promise<void>;
  /** The report that is being sent. */
  #sending = Promise.resolve();

  constructor(send: (message: FromWorker) => Promise<void>, take: () => Report) {
    this.#send = send;
    this.take = take;
  }

  send(): Promise<void> {
    this.#sending = this.#sending.then(async () => {
      for (const part of partsOf(this.take())) {
        await this.#send({ kind: 'report', report: part });
        await nextTurn();
      }
    });
    return this.#sending;
  }
}
