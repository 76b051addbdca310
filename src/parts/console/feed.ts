import { monotonicMs } from '../../base/clock.ts';
import type { PageOutput } from '../../edge/http/server.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import type { View } from '../../operate/admin/scope.ts';
import type { ReportedFigures } from '../../operate/observe/table.ts';
import type { WorkReport } from '../../operate/observe/work-state.ts';
import type { Gatherer } from '../../operate/status/gatherer.ts';
import type { ServiceRates } from '../../operate/status/service-series.ts';
import type { RefusedTop, TopQuestion } from '../lab/sketches/rule-top.ts';
import type { Attention } from '../status/attention.ts';
import type { RefusedClient } from './answers.ts';
import { RefusedClients } from './refused-clients.ts';
import { RuleCosts } from './rule-costs.ts';
import { AllRuleSeries, type RefusingRule, type RuleRates } from './rule-series.ts';
import { Timeline, timelineState } from './timeline.ts';

/** The snapshot that readers of the event stream receive once a second. */
export interface LiveSnapshot extends Attention {
  readonly atMs: number;
  readonly startedAtMs: number;
  readonly rates: ServiceRates;
  /** For each node of the store, the number of processes whose circuit to it is open. */
  readonly circuits: readonly { readonly node: string; readonly open: number }[];
  readonly figures: ReportedFigures;
  readonly workers: { readonly expected: number; readonly restarts: number };
  readonly background: readonly WorkReport[];
  /** Rules that were hit in the last second; leaves out names that the reader may not see. */
  readonly active: readonly RuleRates[];
  /** Over the last minute. */
  readonly refusingRules: readonly RefusingRule[];
  /** The number of clients that were refused in the last minute. */
  readonly refused: RefusedClients['count'];
  /** The clients with the most refused requests. Absent if the reader may not see values. */
  readonly refusedClients?: readonly RefusedClient[];
  /** Processes that answered the last question. */
  readonly processes: readonly string[];
}

type CommonSnapshot = Omit<LiveSnapshot, 'active' | 'refusingRules' | keyof Attention>;

/** The most concurrent readers; a browser shares one stream among all its pages. */
export const MAX_READERS = 50;

/** The most rules whose clients are collected, the most clients of each, and the most that are shown. */
const COLLECTED_RULES = 10;
const COLLECTED_CLIENTS = 50;
const SHOWN_CLIENTS = 20;
const REFUSING_RULES = 20;

/** The fraction of time for collecting clients: slow collections run less often. */
const COLLECTING_SHARE = 0.02;
/** Longest time between collections for readers: a worker that exits makes one slow. */
const MAX_INTERVAL_MS = 5_000;
/** Time between collections while the stream has no readers, and requests are refused. */
const QUIET_INTERVAL_MS = 10_000;

/** Adds to the series once a second, and makes snapshots while the stream has readers. */
export class Feed {
  readonly #options: AdminOptions;
  readonly #gathered: Gatherer;
  readonly #attention: (isFor: View) => Attention;
  readonly #readers = new Map<PageOutput, View>();
  readonly rules = new AllRuleSeries();
  readonly clients: RefusedClients;
  readonly timeline: Timeline;
  readonly costs = new RuleCosts();
  #processes: readonly string[] = [];
  #collectAtMs = 0;
  #isCollecting = false;

  /** @param attention  what needs attention now */
  constructor(options: AdminOptions, gathered: Gatherer, attention: (isFor: View) => Attention) {
    this.#options = options;
    this.#gathered = gathered;
    this.#attention = attention;
    this.clients = new RefusedClients(options.hash);
    this.timeline = new Timeline(gathered.startedAtMs);
    this.rules.begin(options.statistics.rules());
    gathered.onSecond((nowMs) => this.#tick(nowMs));
  }

  get readers(): number {
    return this.#readers.size;
  }

  /** Sends snapshots to a reader until it closes. */
  follow(output: PageOutput, isFor: View): void {
    this.#readers.set(output, isFor);
    output.onClosed(() => this.#readers.delete(output));
    if (this.#readers.size === 1) this.#collectAtMs = 0;
    void this.#collect().then(() => output.write(this.#frame(this.#snapshot(), isFor)));
  }

  #tick(nowMs: number): void {
    const { statistics } = this.#options;
    this.rules.gather(statistics.rules(), nowMs);
    this.costs.gather(statistics.rules());
    this.clients.step(nowMs);
    this.timeline.gather(timelineState(this.#options), nowMs);
    const isRefusing = this.#gathered.service.last.refused > 0 || this.clients.count.clients > 0;
    if (isRefusing || this.#readers.size > 0) void this.#collect();
    if (this.#readers.size === 0) return;
    const snapshot = this.#snapshot();
    for (const isFor of new Set(this.#readers.values())) {
      const readers = [...this.#readers].filter(([, view]) => view === isFor);
      const frame = this.#frame(snapshot, isFor);
      for (const [output] of readers) output.write(frame);
    }
  }

  /** The part of a snapshot that is the same for all readers who see all domains. */
  #snapshot(): CommonSnapshot {
    const options = this.#options;
    const nowMs = options.clock();
    return {
      atMs: nowMs,
      startedAtMs: this.#gathered.startedAtMs,
      rates: this.#gathered.service.last,
      circuits: Array.from(options.openCircuits(), ([node, open]) => ({ node, open })),
      figures: options.figures(),
      workers: { expected: options.settings.workers, restarts: options.restarts() },
      background: options.background(),
      refused: this.clients.count,
      refusedClients: this.clients.top(SHOWN_CLIENTS, nowMs),
      processes: this.#processes,
    };
  }

  #frame({ refusedClients: all = [], ...open }: CommonSnapshot, isFor: View): Buffer {
    const isLimited = typeof isFor === 'object';
    const refusedClients = isLimited ? all.filter(({ rule }) => isFor.hasRule(rule)) : all;
    const shown: LiveSnapshot = {
      ...open,
      ...(isLimited && { refused: { clients: refusedClients.length, isAtLeast: all.length === SHOWN_CLIENTS } }),
      ...this.#attention(isFor),
      active: this.rules.active(isFor),
      refusingRules: this.rules.refusingMost(REFUSING_RULES, isFor, open.atMs),
      ...(isFor !== 'hidden' && { refusedClients }),
    };
    return Buffer.from(`data: ${JSON.stringify(shown)}\n\n`);
  }

  /** Asks every process for the clients that it refuses; a process that hangs delays no snapshot. */
  async #collect(): Promise<void> {
    const { ask, clock } = this.#options;
    const startedMs = monotonicMs();
    if (this.#isCollecting || startedMs < this.#collectAtMs) return;
    this.#isCollecting = true;
    try {
      const question: TopQuestion = { kind: 'clients', rules: COLLECTED_RULES, keys: COLLECTED_CLIENTS };
      const replies = await ask({ kind: 'part', part: 'top', question });
      const tops = replies.flatMap(({ reply }) => (reply === undefined ? [] : [reply as readonly RefusedTop[]])); // to `clients`
      this.clients.note(tops, clock());
      this.#processes = replies.map(({ process }) => process);
    } catch {
      // while workers are being replaced
    } finally {
      const pauseMs = Math.min((monotonicMs() - startedMs) / COLLECTING_SHARE, MAX_INTERVAL_MS);
      this.#collectAtMs = startedMs + (this.#readers.size === 0 ? QUIET_INTERVAL_MS : pauseMs);
      this.#isCollecting = false;
    }
  }
}
