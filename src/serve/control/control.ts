import type { Clock } from '../../base/clock.ts';
import type { SourcedRules } from '../../operate/admin/options.ts';
import type { Logger } from '../../operate/observe/log.ts';
import { logRuleLoads } from '../../operate/observe/rule-loads.ts';
import { createStatistics } from '../../operate/observe/stats.ts';
import { Background } from '../../operate/observe/work-state.ts';
import type { Settings } from '../../settings/settings.ts';
import type { ControlStart, FromControl, ToControl } from '../link/messages.ts';
import { rulesMessages } from '../link/rules-messages.ts';
import { openParts, type Part } from '../parts/start-up.ts';
import { about } from './about.ts';
import { openControlCore } from './core.ts';
import { Deciders } from './deciders.ts';

interface ControlOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly version: string;
  readonly start: Pick<ControlStart, 'isReplacement' | 'overrides' | 'kept' | 'firstNumber' | 'localToken'>;
  readonly send: (message: FromControl) => void;
  /** Calls the listener with the messages of the supervisor, including those that have already arrived. */
  readonly onMessage: (listener: (message: ToControl) => void) => void;
}

/**
 * Opens the part of the service that serves operators, reads rules, and sends them to the deciders.
 *
 * @throws CannotStart if rules at a plain path are invalid, or the settings of a part cannot be used
 */
export function openControl(
  settings: Settings,
  { clock, log, version, start, send, onMessage }: ControlOptions,
): Promise<Part> {
  return openParts(async (add) => {
    const context = { clock, log, background: new Background({ clock, log }) };
    const { nearLimitRatio, maxNameBytes } = settings.statistics;
    const statistics = createStatistics(nearLimitRatio, maxNameBytes);
    const earlier = createStatistics(nearLimitRatio, maxNameBytes);
    const deciders = add(
      new Deciders({
        statistics,
        earlier,
        firstNumber: start.firstNumber,
        send: (id, message) => send({ kind: 'to', id, message }),
      }),
    );
    const onLoad = logRuleLoads(statistics, log, settings.counters.split);
    const core = add(await openControlCore(settings, { askOne: deciders.askOne, onLoad }, context));
    onMessage((message) => {
      deciders.receive(message);
      if (message.kind === 'decider') void core.shareHashKey();
    });
    sendRules(core.rules, send);
    if (start.isReplacement) await deciders.refresh(); // series begin with what is counted now
    const keep = (part: string, value: unknown): void => send({ kind: 'kept', part, value });
    const sources = { core, responders: deciders, statistics, earlier, version, ...start, keep };
    const { openOps } = await import('./ops.ts'); // while deciders open with the rules
    const ops = add(await openOps(settings, sources, context));
    deciders.follow(ops.onCallFinished);
    core.rules.candidate.start(); // the start does not wait for it
    send({
      kind: 'opened',
      about: about(settings, { rules: core.rules, debug: ops.debug, localToken: start.localToken }),
    });
    return {};
  });
}

/** Sends the current rules and the candidate, now and after each change. */
function sendRules({ book, candidate }: SourcedRules, send: (message: FromControl) => void): void {
  const sendThose = (kind: 'rules' | 'candidate', of: Pick<SourcedRules['candidate'], 'packed'>): void => {
    for (const message of rulesMessages(of.packed())) send({ kind, message });
  };
  book.onChange(() => sendThose('rules', book));
  candidate.onChange(() => sendThose('candidate', candidate));
  sendThose('rules', book);
  sendThose('candidate', candidate);
}
