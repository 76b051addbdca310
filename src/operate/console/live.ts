import type { Clock, Monotonic } from '../../base/clock.ts';
import type { PageOutput } from '../../edge/http/server.ts';
import type { AgentQuestion, NamedReply, ReplyTo } from '../admin/agent.ts';
import { describeTop, mergeRules } from '../admin/top-keys.ts';
import type { ShownKey } from '../answers/views.ts';
import type { DurationTotals } from '../observe/prometheus.ts';
import type { Statistics } from '../observe/stats.ts';
import type { HealthFacts } from './health-facts.ts';
import { AllRuleSeries, type RuleRates, type SeriesView } from './rule-series.ts';
import { type ServiceRates, ServiceSeries } from './service-series.ts';

/** The sources of a snapshot: nothing is counted for the console alone. */
interface LiveSources {
  readonly statistics: Statistics;
  readonly durations: () => DurationTotals;
  /** The lateness of timers in this process. */
  readonly latenessMs: () => number;
  readonly ask: <Q extends AgentQuestion>(question: Q) => Promise<readonly NamedReply<ReplyTo<Q>>[]>;
  readonly health: () => HealthFacts;
  /** Hashes callers' values; undefined: they are shown unchanged. */
  readonly hash: ((text: string) => string) | undefined;
  readonly clock: Clock;
  readonly monotonicMs: Monotonic;
  readonly every: (intervalMs: number, run: () => void) => () => void;
}

/** The snapshot that readers of the event stream receive once a second. */
export interface LiveSnapshot extends HealthFacts {
  readonly atMs: number;
  readonly startedAtMs: number;
  readonly rates: ServiceRates;
  readonly rules: HealthFacts['rules'];
  /** Rules that were hit in the last second; leaves out names that the reader may not see. */
  readonly active: readonly RuleRates[];
  /** Over the last minute; `refused` counts descriptors. */
  readonly refusingRules: readonly { readonly rule: string; readonly refused: number }[];
  /** Over the last minute, for the rules that refuse most; absent: the reader may not see values. */
  readonly refusedKeys?: readonly (ShownKey & { readonly rule: string })[];
  /** Processes that answered the last question. */
  readonly processes: readonly string[];
}

type CommonSnapshot = Omit<LiveSnapshot, 'active' | 'refusingRules'>;

const INTERVAL_MS = 1_000;

/** The most concurrent readers; a browser shares one stream among all its pages. */
export const MAX_READERS = 50;

/** The most rules whose keys are shown, and the most keys. */
const KEY_RULES = 3;
const KEYS = 20;
const REFUSING_RULES = 20;

/** The fraction of time for collecting keys: slow collections run less often. */
const KEYS_TIME_SHARE = 0.02;
/** Longest time between collections, of which a worker that exits makes one slow. */
const MAX_KEYS_INTERVAL_MS = 5_000;

/** Adds to the series once a second, and makes snapshots while the stream has readers. */
export class Live {
  readonly #sources: LiveSources;
  readonly #startedAtMs: number;
  readonly #readers = new Map<PageOutput, SeriesView>();
  readonly #stop: () => void;
  readonly service = new ServiceSeries();
  readonly rules = new AllRuleSeries();
  #keys: { readonly keys: LiveSnapshot['refusedKeys']; readonly processes: readonly string[] } | undefined;
  #keysAgainAtMs = 0;
  #isCollecting = false;

  constructor(sources: LiveSources) {
    this.#sources = sources;
    this.#startedAtMs = sources.clock();
    this.service.begin(sources.statistics);
    this.rules.begin(sources.statistics.rules());
    this.#stop = sources.every(INTERVAL_MS, () => this.tick());
  }

  get startedAtMs(): number {
    return this.#startedAtMs;
  }

  get readers(): number {
    return this.#readers.size;
  }

  /** Sends snapshots to a reader until it closes. */
  follow(output: PageOutput, isFor: SeriesView): void {
    this.#readers.set(output, isFor);
    output.onClosed(() => this.#readers.delete(output));
    if (this.#readers.size === 1) {
      this.#keys = undefined;
      this.#keysAgainAtMs = 0;
    }
    void this.#collectKeys().then(() => output.write(this.#frame(this.#snapshot(), isFor)));
  }

  /** To be called once a second. */
  tick(): void {
    const { statistics, durations, latenessMs } = this.#sources;
    this.service.gather(statistics, durations(), latenessMs());
    this.rules.gather(statistics.rules());
    if (this.#readers.size === 0) return;
    void this.#collectKeys();
    const snapshot = this.#snapshot();
    for (const isFor of ['values', 'hidden'] as const) {
      const readers = [...this.#readers].filter(([, kind]) => kind === isFor);
      if (readers.length === 0) continue;
      const frame = this.#frame(snapshot, isFor);
      for (const [output] of readers) output.write(frame);
    }
  }

  close(): void {
    this.#stop();
  }

  /** The part of a snapshot that is the same for all readers. */
  #snapshot(): CommonSnapshot {
    const { health, clock } = this.#sources;
    return {
      atMs: clock(),
      startedAtMs: this.#startedAtMs,
      rates: this.service.last,
      ...health(),
      refusedKeys: this.#keys?.keys ?? [],
      processes: this.#keys?.processes ?? [],
    };
  }

  #frame({ refusedKeys, ...open }: CommonSnapshot, isFor: SeriesView): Buffer {
    const shown: LiveSnapshot = {
      ...open,
      active: this.rules.active(isFor),
      refusingRules: this.rules.refusingMost(REFUSING_RULES, isFor),
      ...(isFor === 'values' && { refusedKeys }),
    };
    return Buffer.from(`data: ${JSON.stringify(shown)}\n\n`);
  }

  /** Asks every process for its keys; a process that hangs delays no snapshot. */
  async #collectKeys(): Promise<void> {
    const { ask, monotonicMs, hash } = this.#sources;
    const startedMs = monotonicMs();
    if (this.#isCollecting || startedMs < this.#keysAgainAtMs) return;
    this.#isCollecting = true;
    try {
      const replies = await ask({ kind: 'top', by: 'refusals', rules: KEY_RULES });
      const keys = mergeRules(replies.map(({ reply }) => reply.tops))
        .slice(0, KEY_RULES)
        .flatMap((top) => describeTop(top, KEYS, hash))
        .flatMap(({ rule, keys: own }) => own.map((key) => ({ rule, ...key })))
        .sort((one, other) => other.hits - one.hits)
        .slice(0, KEYS);
      this.#keys = { keys, processes: replies.map(({ process }) => process) };
    } catch {
      this.#keys = undefined; // while workers are being replaced
    } finally {
      const tookMs = monotonicMs() - startedMs;
      this.#keysAgainAtMs = startedMs + Math.min(tookMs / KEYS_TIME_SHARE, MAX_KEYS_INTERVAL_MS);
      this.#isCollecting = false;
    }
  }
}
