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

/** The counters of the candidate: in a name space of their own. */
export interface TrialCounters {
  readonly ledger: Pick<Ledger, 'debit' | 'close'>;
  readonly counters: Counters;
  /** Counters in memory: decides at this time from now on, in milliseconds since the epoch. */
  setTime?(nowMs: number): void;
  /** Counters in memory that were forgotten before they expired. */
  evicted(): number;
}

export interface TrialOptions {
  /** Decides as the live rules do, but for rules and counters. */
  readonly decider: Omit<Decider, 'rules' | 'ledger' | 'counters' | 'clock'>;
  readonly counters: TrialCounters;
  /** The time at which the live rules have decided on the answer that is being observed. */
  readonly decidedAtMs: (live: Answer) => number;
  readonly clock: Clock;
  /** The share of counters whose requests are tried: above 0 and up to 1. */
  readonly sample: number;
  /** Requests that wait or are being decided, at most. */
  readonly maxInFlight: number;
  /** Whether this process refuses calls for want of time. */
  readonly isLate: () => boolean;
  /** Runs a function in a later turn of the event loop. */
  readonly later: (run: () => void) => void;
  /** Called with every request that both have answered. */
  readonly onTried?: (request: TriedRequest) => void;
}

/** What requests in flight may take, about. */
const MAX_IN_FLIGHT_BYTES = 4 * 1024 * 1024;
/** Requests that are decided in one turn of the event loop: about a millisecond's work. */
const REQUESTS_PER_TURN = 64;
/** How long the store may take: no caller waits for it. */
const STORE_TIMEOUT_MS = 1_000;
/** Rules that are reported, with keys and without. */
const MAX_REPORTED_RULES = { withKeys: 500, alone: 2_000 } as const;

interface Waiting {
  readonly request: RateLimitRequest;
  readonly live: Answer;
  readonly timeMs: number;
  readonly timeoutMs: number;
  readonly rules: RuleTree;
  readonly bytes: number;
  /** Where the answer is counted: not where the rules have changed in the meantime. */
  readonly comparison: Comparison;
  /** The places of the descriptors that are in the figures; undefined: all are. */
  readonly places: readonly number[] | undefined;
}

/**
 * Answers requests a second time by the candidate, after they have been answered, on counters of its own. What it does
 * not get to is dropped and counted. Nothing here reaches a caller.
 */
export class Trial {
  readonly #options: TrialOptions;
  readonly #decider: Decider;
  #rules: RuleTree | undefined;
  /** The rules that the request is decided by that is being decided now. */
  #deciding: RuleTree | undefined;
  /** When the request was answered that was decided last: what applies by the clock applied then. */
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
   * Tries these rules from now on. Counters whose names stay go on, as after a reload; figures begin anew.
   *
   * @param hash  of the rules: see `hashOf`
   */
  follow(rules: RuleTree, hash: string): void {
    this.#rules = rules;
    if (hash !== this.#hash) this.beginAnew();
    this.#hash = hash;
  }

  /** Figures begin anew: one of both rule trees has changed. */
  beginAnew(): void {
    this.#comparison = new Comparison();
    this.#sinceMs = this.#options.clock();
    this.#behind = 0;
    this.#overload = 0;
    this.#failed = 0;
  }

  /**
   * To be called with each answer, after it has left.
   *
   * @param timeoutMs  what was left of the caller's deadline
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
   * @param keys  so many keys of each rule
   * @param rule  of this one alone
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

  /** Drops what waits. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#waiting = [];
    await this.#options.counters.ledger.close();
  }

  /** A few requests in a turn, until none waits. */
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

/** A request with its entries and its answer, about. */
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
  return { ...answer, verdicts, overallCode: isOver ? answer.overallCode : 'OK' };
}
