import type { Counters } from '../backends/key.ts';
import type { Clock } from '../clock.ts';
import { type Answer, type Decider, decide, type RateLimitRequest } from '../decide.ts';
import { type Eventual, isPending } from '../later.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { decodeRequest } from '../rls/codec.ts';
import type { WireRequest } from '../rls/wire.ts';
import type { RuleTree } from '../rules/tree.ts';
import { Comparison, type TriedRequest } from './comparison.ts';
import type { TrialReport } from './report.ts';
import { triedPlaces } from './sampled.ts';

/** The candidate's counters, in a separate name space. */
export interface TrialCounters {
  readonly ledger: Pick<Ledger, 'debit' | 'close'>;
  readonly counters: Counters;
  /** For counters in memory: sets the time of the following decisions, in milliseconds since the epoch. */
  setTime?(nowMs: number): void;
  /** The number of counters in memory that were dropped before they expired. */
  evicted(): number;
}

export interface TrialOptions {
  /** Like the decider of the live rules, except for rules and counters. */
  readonly decider: Omit<Decider, 'rules' | 'ledger' | 'counters' | 'clock'>;
  readonly counters: TrialCounters;
  /** When the live rules decided the answer that is being observed. */
  readonly decidedAtMs: (live: Answer) => number;
  readonly clock: Clock;
  /** The part of counters whose requests are tried: above 0 and up to 1. */
  readonly sample: number;
  /** The most requests that are waiting or being decided. */
  readonly maxInFlight: number;
  /** Whether this process is refusing calls because it is overloaded. */
  readonly isLate: () => boolean;
  /** Runs a function in a later turn of the event loop. */
  readonly later: (run: () => void) => void;
  /** Called with every request that both rule trees have answered. */
  readonly onTried?: (request: TriedRequest) => void;
}

/** Approximate bound of the memory of requests in flight. */
const MAX_IN_FLIGHT_BYTES = 4 * 1024 * 1024;
/** Requests decided in one turn of the event loop: about a millisecond of work. */
const REQUESTS_PER_TURN = 64;
/** The store timeout; no caller waits for it. */
const STORE_TIMEOUT_MS = 1_000;
/** The most rules in a report, with keys and without. */
const MAX_REPORTED_RULES = { withKeys: 500, alone: 2_000 } as const;

interface Waiting {
  readonly request: RateLimitRequest;
  readonly live: Answer;
  readonly timeMs: number;
  readonly timeoutMs: number;
  readonly rules: RuleTree;
  readonly bytes: number;
  /** Counts the answer, unless the rules have changed in the meantime. */
  readonly comparison: Comparison;
  /** The indices of the descriptors that are included in the figures; undefined: all. */
  readonly places: readonly number[] | undefined;
}

/**
 * Answers requests a second time by the candidate, after they have been answered, on separate counters. Requests beyond
 * its capacity are dropped and counted. It has no effect on callers.
 */
export class Trial {
  readonly #options: TrialOptions;
  readonly #decider: Decider;
  #rules: RuleTree | undefined;
  /** The rules of the request that is being decided. */
  #deciding: RuleTree | undefined;
  /** The time at which the request that is being decided was answered, which determines the limits that apply. */
  #timeMs = 0;
  #hash = '';
  #comparison = new Comparison();
  #sinceMs: number;
  #waiting: Waiting[] = [];
  #isScheduled = false;
  #isClosed = false;
  #inFlight = 0;
  #inFlightBytes = 0;
  #behind = 0;
  #overload = 0;
  #failed = 0;

  constructor(options: TrialOptions) {
    const { decider, counters, clock } = options;
    this.#options = options;
    this.#sinceMs = clock();
    this.#decider = {
      ...decider,
      rules: () => this.#deciding,
      clock: () => this.#timeMs,
      counters: counters.counters,
      ledger: {
        debit: (debits, how) => counters.ledger.debit(debits, { ...how, timeoutMs: STORE_TIMEOUT_MS }),
      },
    };
  }

  /**
   * Tries these rules from now on. Counters whose names are unchanged are kept, as after a reload; figures restart.
   *
   * @param hash  of the rules: see `hashOf`
   */
  follow(rules: RuleTree, hash: string): void {
    this.#rules = rules;
    if (hash !== this.#hash) this.beginAnew();
    this.#hash = hash;
  }

  /** Restarts the figures, since one of the rule trees has changed. */
  beginAnew(): void {
    this.#comparison = new Comparison();
    this.#sinceMs = this.#options.clock();
    this.#behind = 0;
    this.#overload = 0;
    this.#failed = 0;
  }

  /**
   * Must be called with each answer, after it was sent.
   *
   * @param timeoutMs  the time left until the caller's deadline
   */
  answered(wire: WireRequest, live: Answer, timeoutMs: number): void {
    const rules = this.#rules;
    if (!rules?.domains.has(wire.domain) || this.#isClosed) return;
    const { sample, decider, maxInFlight, isLate } = this.#options;
    const tried = sample < 1 ? triedPlaces(wire, live, rules, { sample, decider }) : EVERY;
    if (!tried) return;
    const bytes = bytesOf(wire);
    if (isLate()) return void this.#overload++;
    if (this.#inFlight >= maxInFlight || this.#inFlightBytes + bytes > MAX_IN_FLIGHT_BYTES) return void this.#behind++;
    const decoded = decodeRequest(wire);
    const { sampled, areAlone } = tried;
    this.#inFlight++;
    this.#inFlightBytes += bytes;
    this.#waiting.push({
      request: sampled && areAlone ? { ...decoded, descriptors: chosen(decoded.descriptors, sampled) } : decoded,
      live: sampled ? partOf(live, sampled) : live,
      places: areAlone ? undefined : sampled,
      timeMs: this.#options.decidedAtMs(live),
      ...{ timeoutMs, rules, bytes, comparison: this.#comparison },
    });
    this.#schedule();
  }

  /**
   * @param keys  the number of keys of each rule
   * @param rule  only this rule
   */
  report(keys: number, rule?: string): TrialReport {
    const most = keys > 0 ? MAX_REPORTED_RULES.withKeys : MAX_REPORTED_RULES.alone;
    const rules = this.#comparison.rules(most, keys, rule);
    return {
      ...{ sinceMs: this.#sinceMs, hash: this.#hash, ruleCount: this.#rules?.rules.length ?? 0 },
      ...{ inFlight: this.#inFlight, inFlightBytes: this.#inFlightBytes },
      dropped: { behind: this.#behind, overload: this.#overload },
      ...{ failed: this.#failed, evicted: this.#options.counters.evicted() },
      ...{ totals: this.#comparison.totals, rules },
      moreRules: rule === undefined ? Math.max(this.#comparison.ruleCount - rules.length, 0) : 0,
    };
  }

  /** Drops waiting requests. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#waiting = [];
    await this.#options.counters.ledger.close();
  }

  /** Decides a few requests per turn, until none is waiting. */
  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#options.later(() => {
      this.#isScheduled = false;
      const now = this.#waiting.slice(0, REQUESTS_PER_TURN);
      this.#waiting = this.#waiting.length > now.length ? this.#waiting.slice(now.length) : [];
      for (const one of now) this.#decide(one);
      if (this.#waiting.length > 0) this.#schedule();
    });
  }

  #decide(one: Waiting): void {
    this.#options.counters.setTime?.(one.timeMs);
    this.#timeMs = one.timeMs;
    this.#deciding = one.rules;
    let answer: Eventual<Answer>;
    try {
      answer = decide(one.request, this.#decider, one.timeoutMs);
    } catch {
      return this.#end(one, undefined);
    } finally {
      this.#deciding = undefined;
    }
    if (!isPending(answer)) return this.#end(one, answer);
    answer.then(
      (later) => this.#end(one, later),
      () => this.#end(one, undefined),
    );
  }

  /** @param candidate  undefined: no answer in time */
  #end({ bytes, comparison, request, live, places }: Waiting, candidate: Answer | undefined): void {
    this.#inFlight--;
    this.#inFlightBytes -= bytes;
    if (comparison !== this.#comparison || this.#isClosed) return;
    if (!candidate) return void this.#failed++;
    const { descriptors } = request;
    const tried = places
      ? { descriptors: chosen(descriptors, places), live, candidate: partOf(candidate, places) }
      : { descriptors, live, candidate };
    comparison.add(tried);
    this.#options.onTried?.(tried);
  }
}

/** All descriptors of a request are tried. */
const EVERY = { sampled: undefined, areAlone: true } as const;

/** Approximate bytes of a request with its entries and its answer. */
const REQUEST_BYTES = 512;
const ENTRY_BYTES = 64;

function bytesOf({ domain, descriptors }: WireRequest): number {
  let bytes = REQUEST_BYTES + domain.length;
  for (const { entries } of descriptors)
    for (const { key, value } of entries) bytes += ENTRY_BYTES + 2 * (key.length + value.length);
  return bytes;
}

const chosen = <T>(all: readonly T[], places: readonly number[]): readonly T[] => places.flatMap((at) => all[at] ?? []);

/** The answer for some of the descriptors. */
function partOf(answer: Answer, places: readonly number[]): Answer {
  const verdicts = chosen(answer.verdicts, places);
  const isOver = verdicts.some((verdict) => verdict.kind === 'limited' && verdict.code === 'OVER_LIMIT');
  return isOver ? { ...answer, verdicts } : { ...answer, verdicts, overallCode: 'OK', retryAfterMs: undefined };
}
