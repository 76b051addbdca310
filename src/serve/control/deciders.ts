import { setTimeout as sleep } from 'node:timers/promises';
import type { OnCallFinished } from '../../edge/grpc/grpc-server.ts';
import {
  type AgentQuestion,
  type AgentReply,
  mayAskAgain,
  type NamedReply,
  type ReplyTo,
  replyTo,
} from '../../operate/admin/agent.ts';
import type { Responders } from '../../operate/admin/options.ts';
import type { SitesReport } from '../../operate/observe/site-counts.ts';
import type { Statistics } from '../../operate/observe/stats.ts';
import type { ReportedFigures, StoreFacts } from '../../operate/observe/table.ts';
import type { WorkReport } from '../../operate/observe/work-state.ts';
import type { DeciderQuestion, DeciderReply, StartedDecider, ToControl } from '../link/messages.ts';
import { createTotals, isIdle } from './totals.ts';

/** How often deciders report; one that is killed loses the counts of this time. */
const REPORT_INTERVAL_MS = 250;
/** The same if the last reports had nothing: each one wakes three processes. */
const IDLE_INTERVAL_MS = 1_000;
/** Timeout of a report: a decider that hangs must not block pages. */
const REPORT_TIMEOUT_MS = 1_000;
/** Timeout of a reply to an operator's question: longer than reading counters may take. */
const REPLY_TIMEOUT_MS = 3_000;

interface DecidersOptions {
  readonly statistics: Statistics;
  /** Receives the counts that were reported to earlier control processes, which `statistics` includes. */
  readonly earlier: Statistics;
  readonly firstNumber: number;
  readonly send: (id: number, message: DeciderQuestion) => void;
}

/** A decider, as the control process knows it. */
interface KnownDecider {
  readonly name: string;
  readonly replies: PendingReplies;
  /** Earlier control processes have received reports of it. */
  readonly hasReported: boolean;
  /** This process has asked it for a report. */
  wasAsked: boolean;
}

/** Asks the deciders of this instance for reports and answers to operators, and adds them up. */
export class Deciders implements Responders {
  readonly #options: DecidersOptions;
  readonly #known = new Map<number, KnownDecider>();
  readonly #totals: ReturnType<typeof createTotals>;
  readonly #closing = new AbortController();
  #onCallFinished: OnCallFinished = () => {};
  #isFollowed = false;
  /** Whether a report had something since the last round. */
  #isBusy = false;
  #restarts = 0;
  #counters = '';

  constructor(options: DecidersOptions) {
    this.#options = options;
    this.#totals = createTotals(options.statistics);
  }

  /** Has deciders report regularly. @param onCallFinished  called for each gRPC call that a decider reports */
  follow(onCallFinished: OnCallFinished): void {
    this.#onCallFinished = onCallFinished;
    this.#isFollowed = true;
    void this.#repeat(this.#closing.signal);
  }

  close(): void {
    this.#closing.abort();
  }

  /** Takes a message of the supervisor. */
  receive(message: ToControl): void {
    switch (message.kind) {
      case 'decider':
        return this.#started(message.decider);
      case 'decider_ended':
        return this.#ended(message.id);
      case 'from':
        return this.#received(message.id, message.message);
      default:
        return undefined; // is for the process
    }
  }

  #started({ id, name, counters, restarts, hasReported }: StartedDecider): void {
    this.#restarts = restarts;
    this.#counters = counters;
    const decider = {
      name,
      hasReported,
      wasAsked: false,
      replies: new PendingReplies(this.#options.firstNumber),
    };
    this.#known.set(id, decider);
    if (this.#isFollowed) void this.#requestReport(id, decider); // it counts as not ready until it has reported
  }

  #ended(id: number): void {
    const decider = this.#known.get(id);
    this.#known.delete(id);
    this.#totals.ended(id);
    decider?.replies.giveUp();
  }

  #received(id: number, message: DeciderReply): void {
    const { firstNumber } = this.#options;
    if ((message.number ?? firstNumber) < firstNumber) return; // asked for by a control process that has ended
    const decider = this.#known.get(id);
    if (message.kind === 'report') {
      if (message.since === 'start' && decider?.hasReported) this.#options.earlier.merge(message.report.counted);
      this.#isBusy ||= !isIdle(message.report);
      return this.#totals.add(id, message.report, this.#onCallFinished);
    }
    decider?.replies.received(message.number, message.reply);
  }

  readonly ask = async <Q extends AgentQuestion>(question: Q): Promise<readonly NamedReply<ReplyTo<Q>>[]> => {
    const replies = await Promise.all(
      Array.from(this.#known, async ([id, { name, replies }]) => ({
        process: name,
        reply: await replies.request(
          (number) => this.#options.send(id, { kind: 'ask', number, question }),
          REPLY_TIMEOUT_MS,
        ),
      })),
    );
    return replies.flatMap(({ process, reply }) => (reply ? [{ process, reply: replyTo(question, reply) }] : []));
  };

  readonly askOne = async <Q extends AgentQuestion>(question: Q, moreMs = 0): Promise<ReplyTo<Q> | undefined> => {
    for (const [id, { replies }] of this.#known) {
      const send = (number: number) => this.#options.send(id, { kind: 'ask', number, question });
      const reply = await replies.request(send, REPLY_TIMEOUT_MS + moreMs);
      if (reply) return replyTo(question, reply);
      if (!mayAskAgain(question)) return undefined; // it may have been done
    }
    return undefined;
  };

  readonly refresh = async (): Promise<void> => {
    await Promise.all(Array.from(this.#known, ([id, decider]) => this.#requestReport(id, decider)));
  };

  readonly figures = (): ReportedFigures => this.#totals.figures();
  readonly openCircuits = () => this.#totals.openCircuits();
  readonly sites = (): SitesReport | undefined => this.#totals.sites();
  readonly background = (): readonly WorkReport[] => this.#totals.background();
  readonly restarts = (): number => this.#restarts;
  readonly isReady = (): boolean => this.#totals.isReady();
  readonly storeDescription = (): string => this.#counters;
  readonly store = (): StoreFacts | undefined => this.#totals.store();

  async #requestReport(id: number, decider: KnownDecider): Promise<void> {
    const since = decider.wasAsked ? 'last' : 'start';
    decider.wasAsked = true;
    const send = (number: number) => this.#options.send(id, { kind: 'report', number, since });
    await decider.replies.request(send, REPORT_TIMEOUT_MS);
  }

  async #repeat(closing: AbortSignal): Promise<void> {
    while (!closing.aborted) {
      this.#isBusy = false;
      await this.refresh();
      const intervalMs = this.#isBusy ? REPORT_INTERVAL_MS : IDLE_INTERVAL_MS;
      await sleep(intervalMs, undefined, { signal: closing }).catch(() => {}); // ends early when closed
    }
  }
}

/** Requests to a decider that are waiting for a reply. */
class PendingReplies {
  readonly #pending = new Map<number, (reply?: AgentReply) => void>();
  #next: number;

  /** @param first  the number of the first request */
  constructor(first: number) {
    this.#next = first;
  }

  /**
   * @param send  sends the request under a number
   * @returns undefined  there was no reply in time
   */
  request(send: (number: number) => void, timeoutMs: number): Promise<AgentReply | undefined> {
    return new Promise((resolve) => {
      const number = this.#next++;
      const done = (reply?: AgentReply): void => {
        clearTimeout(timer);
        this.#pending.delete(number);
        resolve(reply);
      };
      const timer = setTimeout(done, timeoutMs);
      this.#pending.set(number, done);
      send(number);
    });
  }

  /** @param reply  undefined if none will come */
  received(number: number, reply: AgentReply | undefined): void {
    this.#pending.get(number)?.(reply);
  }

  /** The decider has ended: no reply will arrive. */
  giveUp(): void {
    for (const done of this.#pending.values()) done();
  }
}
