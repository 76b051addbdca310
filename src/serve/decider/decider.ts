import { uptime } from 'node:process';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock } from '../../base/clock.ts';
import { Later } from '../../base/later.ts';
import { RequestClock } from '../../base/request-clock.ts';
import { StoreUnavailable } from '../../engine/backends/backend.ts';
import type { AdminAgent, AgentQuestion } from '../../operate/admin/agent.ts';
import type { Logger } from '../../operate/observe/log.ts';
import { Background, WorkState } from '../../operate/observe/work-state.ts';
import type { Settings } from '../../settings/settings.ts';
import type { DeciderReply, Listening, Report, ToDecider } from '../link/messages.ts';
import { receiveRules } from '../link/rules-messages.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import { type CannotStart, openParts, type Part } from '../parts/start-up.ts';
import { openDeciderCore } from './core.ts';
import { createReporter, splitReport } from './reporter.ts';
import { openResponder } from './responder.ts';
import { whenNeverReached } from './store.ts';

interface DeciderOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** Sends an answer to the control process; resolves when it has been taken. */
  readonly send: (message: DeciderReply) => Promise<void>;
  /** Called if the store cannot be reached within the time that the settings give it. */
  readonly onNeverReached: (reason: CannotStart) => void;
}

/** The part of the service that answers callers. */
export function createDecider(settings: Settings, { clock, log, send, onNeverReached }: DeciderOptions) {
  const { nearLimitRatio, maxNameBytes } = settings.statistics;
  const reporter = createReporter(nearLimitRatio, maxNameBytes);
  const rules = receiveRules(log, settings.counters.split);
  const reports = createReportSender(send, (since) => reporter.take(since));
  const agent = new Later<AdminAgent>();
  const operatorsServed = new Later<void>();
  const plain = { clock, log, background: new Background({ clock, log }) };
  let opening: Promise<Listening & Part> | undefined;
  const openAll = () =>
    openParts(async (add) => {
      const context = settings.recording ? contextOfRecording(plain) : plain;
      const core = add(await openDeciderCore(settings, rules, context));
      const responder = add(await openResponder(settings, { core, serviceObserver: reporter }, context));
      agent.resolve(responder.agent);
      const { figures, sites } = responder;
      const state = { store: core.store, readiness: core.readiness, figures, sites, background: plain.background };
      reports.take = (since) => reporter.take(since, state);
      const { grpc, http } = add(await responder.listen(reporter.onCallFinished));
      add(core.readiness);
      void operatorsServed.then(() => core.readiness.portsOpened());
      void whenNeverReached(settings.counters.startup.maxElapsedMs, core.store, uptime() * 1_000).then(onNeverReached);
      return { grpc, http, counters: core.store.description };
    });
  const questions = watchQuestions(clock, log);
  return {
    /** Takes rules, and questions of the control process. */
    receive(message: ToDecider): void {
      switch (message.kind) {
        case 'report':
          return void reports
            .send(message)
            .then(() => send({ kind: 'reply', number: message.number, reply: undefined }));
        case 'ask': {
          const { number, question } = message;
          const answer = agent.then((opened) => opened(question)); // overrides may arrive before it is open
          return void answer
            .then(
              (reply) => questions.answered(question, reply),
              (error: unknown): undefined => questions.failed(question, error),
            )
            .then((reply) => send({ kind: 'reply', number, reply }));
        }
        case 'operators_served':
          return operatorsServed.resolve();
        default:
          return rules.receive(message);
      }
    },
    /** Waits for the first rules, then opens the servers. @throws CannotStart */
    async open(): Promise<Listening> {
      opening ??= openAll();
      const { grpc, http, counters } = await opening;
      return { grpc, http, counters };
    },
    /** Finishes the calls in flight, and sends a last report. */
    async close(): Promise<void> {
      if (!rules.arrived.isSettled) return; // nothing is open, nor being opened
      await opening?.then((opened) => opened.close()).catch(() => {}); // what failed to open has closed itself
      await reports.sendLast();
    },
  };
}

/** Logs questions of operators that have no answer: a failure of the store once until it ends. */
function watchQuestions(clock: Clock, log: Logger) {
  const states = new Map<string, WorkState>();
  const nameOf = (question: AgentQuestion): string => (question.kind === 'part' ? question.part : question.kind);
  return {
    answered<R>(question: AgentQuestion, reply: R): R {
      states.get(nameOf(question))?.works();
      return reply;
    },
    failed(question: AgentQuestion, error: unknown): undefined {
      const name = nameOf(question);
      const what = `answering the operators' question '${name}'`;
      if (!(error instanceof StoreUnavailable)) return void log.error({ err: error }, `${what} has failed`);
      const state = states.get(name) ?? new WorkState({ does: what, clock, log });
      states.set(name, state);
      state.failed(error);
    },
  };
}

/** Requests are recorded: the clock stands still during a decision. */
function contextOfRecording(context: ProcessContext): ProcessContext {
  const requestClock = new RequestClock(context.clock);
  return { ...context, clock: requestClock.read, requestClock };
}

type TakeReport = (since: 'start' | 'last') => Report;

/** Sends reports one after the other. @param take  until another one is set */
function createReportSender(send: (message: DeciderReply) => Promise<void>, take: TakeReport) {
  let sending = Promise.resolve();
  let hasSentLast = false;
  const enqueue = (since: 'start' | 'last', number: number | undefined): Promise<void> => {
    sending = sending.then(async () => {
      for (const part of splitReport(sender.take(since))) {
        await send({ kind: 'report', number, since, report: part });
        await nextTurn();
      }
    });
    return sending;
  };
  const sender = {
    take,
    /** @param number  of the question for the report */
    send: ({ since, number }: { readonly since: 'start' | 'last'; readonly number: number }): Promise<void> =>
      hasSentLast ? sending : enqueue(since, number),
    /** Sends the last report, without a question for it; later questions find nothing to report. */
    sendLast(): Promise<void> {
      hasSentLast = true;
      return enqueue('last', undefined);
    },
  };
  return sender;
}
