import type { Clock } from '../../base/clock.ts';
import { type Eventual, isPending } from '../../base/later.ts';
import { decodeRequest } from '../../edge/wire/codec.ts';
import type { WireRequest } from '../../edge/wire/wire.ts';
import type { Counters } from '../../engine/backends/key.ts';
import {
  type Answer,
  CountersUnavailable,
  type Decider,
  decide,
  type Limited,
  limitedBy,
  type RateLimitRequest,
} from '../../engine/decide/decide.ts';
import { findUnmet } from '../../engine/decide/unmet.ts';
import type { Ledger } from '../../engine/ledger/ledger.ts';
import { match } from '../../engine/rules/match/match.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import { hashCounter } from '../lab/record/sampling.ts';
import { Comparison, pairVerdicts, type TriedRequest } from './comparison.ts';
import { areIndependent, Coverage, isExact, triedPlaces } from './exact.ts';
import type { TrialReport } from './report.ts';

/** The candidate's counters, in a separate name space. */
interface TrialCounters {
  readonly ledger: Pick<Ledger, 'debit' | 'close'>;
  readonly counters: Counters;
  /** Sets the time of the following decisions, in milliseconds since the epoch. */
  setTime(nowMs: number): void;
  /** The number of counters in memory that were dropped before they expired. */
  evicted(): number;
}

interface TrialOptions {
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
  readonly isBehind: () => boolean;
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

const noneMissing = { behind: 0, overload: 0, failed: 0, withheld: 0 };

interface Waiting {
  readonly request: RateLimitRequest;
  /** For the descriptors of `request`. */
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
 * Answers requests a second time by the candidate, after they have been answered, on separate counters and at the time
 * of the first answer. While there are too many, all requests of some counters are dropped, and counted. The figures
 * leave out counters that may differ from those of a candidate in force. It has no effect on callers.
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
  readonly #coverage: Coverage;
  #waiting: Waiting[] = [];
  #isScheduled = false;
  #isClosed = false;
  #inFlight = 0;
  #inFlightBytes = 0;
  /** Requests that are missing from the figures, by reason. */
  #missing = { ...noneMissing };
  /** Requests that the counters have not answered yet. */
  #undecided = 0;

  constructor(options: TrialOptions) {
    const { decider, counters, clock, sample } = options;
    this.#options = options;
    this.#sinceMs = clock();
    this.#coverage = new Coverage(sample, this.#sinceMs);
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
   * @param hash  of the rules: see `hashCounter`
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
    this.#coverage.begin(this.#sinceMs);
    this.#missing = { ...noneMissing };
  }

  /**
   * Must be called with each answer, after it was sent.
   *
   * @param timeoutMs  the time left until the caller's deadline
   */
  answered(wire: WireRequest, live: Answer, timeoutMs: number): void {
    const rules = this.#rules;
    if (!rules?.domains.has(wire.domain) || this.#isClosed) return;
    const { sample, decider, decidedAtMs } = this.#options;
    const ofSample = sample < 1 ? triedPlaces(wire, live, rules, { sample, decider }) : EVERY;
    if (!ofSample) return;
    const { share } = this.#paced();
    const tried = share < sample ? triedPlaces(wire, live, rules, { sample: share, decider }) : ofSample;
    const bytes = estimateBytes(wire);
    const decoded = decodeRequest(wire);
    const isFull = this.#isFull(bytes);
    if (!tried || isFull) {
      this.#missed(decoded);
      this.#missing[isFull ? 'behind' : 'overload']++;
      if (isFull) this.#coverage.lower(this.#options.clock());
      return;
    }
    if (share < sample && tried.sampled && tried.areAlone) this.#missed(decoded, tried.sampled);
    if (live.verdicts.flatMap(limitedBy).some(isDegraded)) this.#missed(decoded);
    const { sampled, areAlone } = tried;
    this.#inFlight++;
    this.#inFlightBytes += bytes;
    this.#waiting.push({
      request: sampled && areAlone ? { ...decoded, descriptors: chosen(decoded.descriptors, sampled) } : decoded,
      live: sampled && areAlone ? selectAnswer(live, sampled) : live,
      places: areAlone ? undefined : sampled,
      timeMs: decidedAtMs(live),
      timeoutMs,
      rules,
      bytes,
      comparison: this.#comparison,
    });
    this.#schedule();
  }

  /** Must be called with the cause of each call without an answer: its hits may have been counted. */
  failed(cause: unknown): void {
    if (!(cause instanceof CountersUnavailable) || !this.#rules?.domains.has(cause.domain)) return;
    const descriptors = cause.matched.flatMap(({ found, hits }) =>
      found.kind === 'limited' ? { entries: found.entries, requestLimit: undefined, hits } : [],
    );
    this.#missed({ domain: cause.domain, descriptors });
  }

  /**
   * @param keys  the number of keys of each rule
   * @param rule  only this rule
   */
  report(keys: number, rule?: string): TrialReport {
    const most = keys > 0 ? MAX_REPORTED_RULES.withKeys : MAX_REPORTED_RULES.alone;
    const rules = this.#comparison.rules(most, keys, rule);
    const { behind, overload, ...missing } = this.#missing;
    return {
      sinceMs: this.#sinceMs,
      hash: this.#hash,
      ruleCount: this.#rules?.rules.length ?? 0,
      inFlight: this.#inFlight,
      inFlightBytes: this.#inFlightBytes,
      dropped: { behind, overload },
      ...missing,
      evicted: this.#options.counters.evicted(),
      totals: this.#comparison.totals,
      rules,
      moreRules: rule === undefined ? Math.max(this.#comparison.ruleCount - rules.length, 0) : 0,
    };
  }

  /** Drops waiting requests. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#waiting = [];
    await this.#options.counters.ledger.close();
  }

  /** The counters that are tried now. */
  #paced(): Coverage {
    const { isBehind, clock } = this.#options;
    if (isBehind()) this.#coverage.lower(clock());
    else this.#coverage.raise(clock());
    return this.#coverage;
  }

  #isFull(bytes: number): boolean {
    return this.#inFlight >= this.#options.maxInFlight || this.#inFlightBytes + bytes > MAX_IN_FLIGHT_BYTES;
  }

  /** @param except  the descriptors that have not missed the request, by index */
  #missed({ domain, descriptors }: RateLimitRequest, except: readonly number[] = []): void {
    const rules = this.#rules;
    if (!rules) return;
    const { clock, decider } = this.#options;
    const counted = findUnmet({ domain, descriptors }, rules)?.descriptors ?? descriptors;
    for (const [at, descriptor] of counted.entries()) {
      if (except.includes(at)) continue;
      const { entries } = descriptor;
      const matched = match(rules, domain, descriptor);
      const found = decider.overrides?.apply(matched, domain, entries) ?? matched;
      this.#coverage.miss(hashCounter(domain, found.kind === 'limited' ? found.entries : entries), clock());
    }
  }

  /**
   * Decides a few requests per turn, until none is waiting. The counters have one time: they must have decided earlier
   * requests before those of another time are sent.
   */
  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#options.later(() => {
      this.#isScheduled = false;
      let count = 0;
      for (const one of this.#waiting.slice(0, REQUESTS_PER_TURN)) {
        if (this.#undecided > 0 && one.timeMs !== this.#timeMs) break;
        this.#decide(one);
        count++;
      }
      if (count > 0) this.#waiting = this.#waiting.slice(count);
      if (this.#waiting.length > 0 && count > 0) this.#schedule();
    });
  }

  #decide(one: Waiting): void {
    this.#options.counters.setTime(one.timeMs);
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
    this.#undecided++;
    const decided = (later: Answer | undefined): void => {
      this.#undecided--;
      this.#end(one, later);
      if (this.#undecided === 0 && this.#waiting.length > 0) this.#schedule();
    };
    answer.then(decided, () => decided(undefined));
  }

  /** @param candidate  undefined: no answer in time */
  #end(one: Waiting, candidate: Answer | undefined): void {
    const { bytes, comparison, request, live, places } = one;
    this.#inFlight--;
    this.#inFlightBytes -= bytes;
    if (!candidate) this.#missed(request);
    if (comparison !== this.#comparison || this.#isClosed) return;
    if (!candidate) return void this.#missing.failed++;
    const { descriptors } = request;
    const exact = this.#exactPlaces(one, candidate);
    const isWhole = exact.length === descriptors.length;
    if (!isWhole) this.#missing.withheld++;
    this.#options.onTried?.({ descriptors, live, candidate });
    if (isWhole && !places) return comparison.add({ descriptors, live, candidate });
    const compared = isWhole ? places : exact;
    if (!isWhole && !areIndependent(request, live, one.rules, this.#options.decider)) return this.#missed(request);
    if (!compared || (!isWhole && places)) return;
    comparison.add({
      descriptors: chosen(descriptors, compared),
      live: selectAnswer(live, compared),
      candidate: selectAnswer(candidate, compared),
    });
  }

  /** The descriptors whose verdicts are those of a candidate in force, by index. */
  #exactPlaces({ request: { domain, descriptors }, live, rules, timeMs }: Waiting, candidate: Answer): number[] {
    const { decider } = this.#options;
    const spend = rules.domains.get(domain)?.spend ?? decider.spend;
    return descriptors.flatMap((_, at) => {
      const [one, other] = [live.verdicts[at], candidate.verdicts[at]];
      if (!one || !other) return [];
      const areExact = pairVerdicts(one, other).map((pair) => isExact(pair, { domain, spend, timeMs }, this.#coverage));
      return areExact.every(Boolean) ? at : [];
    });
  }
}

const isDegraded = ({ decision }: Limited): boolean => decision.degraded !== undefined;

/** All descriptors of a request are tried. */
const EVERY = { sampled: undefined, areAlone: true } as const;

/** Approximate bytes of a request with its entries and its answer. */
const REQUEST_BYTES = 512;
const ENTRY_BYTES = 64;

function estimateBytes({ domain, descriptors }: WireRequest): number {
  let bytes = REQUEST_BYTES + domain.length;
  for (const { entries } of descriptors)
    for (const { key, value } of entries) bytes += ENTRY_BYTES + 2 * (key.length + value.length);
  return bytes;
}

const chosen = <T>(all: readonly T[], places: readonly number[]): readonly T[] => places.flatMap((at) => all[at] ?? []);

/** The answer for some of the descriptors. */
function selectAnswer(answer: Answer, places: readonly number[]): Answer {
  const verdicts = chosen(answer.verdicts, places);
  const isOver = verdicts.some((verdict) => verdict.kind === 'limited' && verdict.code === 'OVER_LIMIT');
  return isOver ? { ...answer, verdicts } : { ...answer, verdicts, overallCode: 'OK', retryAfterMs: undefined };
}
