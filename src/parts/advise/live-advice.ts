import { shareRuns } from '../../base/later.ts';
import { take } from '../../base/slices.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import { type AskParts, askPart } from '../../operate/admin/ask-part.ts';
import { readableKey } from '../replay/report.ts';
import type { Advice } from './answers.ts';
import type { ArrivalBatch, LoggedArrival } from './arrival-log.ts';
import { FOLLOWED_KEY_BYTES } from './key-arrivals.ts';
import { DEFAULT_MAX_KEYS_HIT } from './propose.ts';
import { type Chosen, RuleSketches } from './rule-sketches.ts';

interface LiveAdviceOptions {
  readonly rules: () => RuleTree | undefined;
  /** Queries every process that answers requests. */
  readonly ask: AskParts;
  /** Hashes callers' values for display; undefined: they are shown unchanged. */
  readonly hash: ((text: string) => string) | undefined;
  readonly maxBytes: number;
  /** Of the samples of keys; secret from callers. */
  readonly seed: number;
  readonly every: (intervalMs: number, run: () => void) => () => void;
}

const INTERVAL_MS = 1_000;
/** The most keys per rule, since the time for advice on a limit is proportional to its keys. */
const KEYS_OF_RULE = 4_000;
/** The most limits in one answer. */
const MAX_LIMITS = 200;
/** The share of the memory for keys whose hits around window boundaries are followed, and the size of such a key. */
const ADMITTED_PART = 1 / 5;
const ADMITTED_KEY_BYTES = 400;

/** Sums up the arrivals at all processes, and advises on limits. */
export class LiveAdvice {
  readonly #options: LiveAdviceOptions;
  readonly #sketches: RuleSketches;
  readonly #stop: () => void;
  #tree: RuleTree | undefined;
  #level = 0;

  constructor(options: LiveAdviceOptions) {
    const { maxBytes, seed, every } = options;
    this.#options = options;
    const keys = Math.floor((maxBytes * (1 - ADMITTED_PART)) / FOLLOWED_KEY_BYTES);
    const admittedKeys = Math.floor((maxBytes * ADMITTED_PART) / ADMITTED_KEY_BYTES);
    const bounds = { keys, keysOfRule: Math.min(keys, KEYS_OF_RULE), admittedKeys };
    this.#sketches = new RuleSketches(bounds, seed, false);
    this.#stop = every(INTERVAL_MS, () => void this.collect().catch(() => {})); // a process may end meanwhile
  }

  /** Collects new arrivals. */
  readonly collect = shareRuns(() => this.#collect());

  /** @param only  limits of this domain or rule */
  async advice(only: Chosen, maxKeysHit = DEFAULT_MAX_KEYS_HIT): Promise<Advice> {
    await this.collect();
    const { hash } = this.#options;
    const shownKey = (key: string): string => (hash ? hash(key) : readableKey(key));
    const limits = [...take(MAX_LIMITS, this.#sketches.advice({ maxKeysHit, shownKey }, only))];
    const isCut = limits.length === MAX_LIMITS;
    const warnings = isCut ? [`advice on ${MAX_LIMITS} limits at most: give a domain or a rule`] : [];
    return { limits, skipped: this.#sketches.skipped(only), warnings };
  }

  close(): void {
    this.#stop();
  }

  async #collect(): Promise<void> {
    const { ask, rules, seed } = this.#options;
    const tree = rules();
    if (tree && tree !== this.#tree) {
      this.#sketches.follow(tree);
      this.#tree = tree;
    }
    const batches = await askPart<ArrivalBatch>({ ask }, 'advise', { seed, level: this.#level });
    const all = batches.flatMap(({ level, arrivals }) => arrivals.map((one) => ({ ...one, level })));
    this.#level = batches.reduce((most, { level }) => Math.max(most, level), this.#level);
    all.sort(byTime);
    for (const one of all) this.#sketches.add(one);
  }
}

const byTime = (one: LoggedArrival, other: LoggedArrival): number => one.timeMs - other.timeMs;
