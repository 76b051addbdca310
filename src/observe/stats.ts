import { type Limit, softLimitOf } from '../algorithms/limit.ts';
import { type Answer, type Asked, type Code, Undecided, type Verdict } from '../decide.ts';
import type { Rule } from '../rules/tree.ts';
import { StoreUnavailable } from '../stores/store.ts';
import { asStatisticName } from './statistic-name.ts';

/** What became of the hits of one rule, in hits. The names are envoyproxy/ratelimit's. */
export interface RuleCounts {
  readonly domain: string;
  /** The names of the levels below the domain. */
  readonly levels: readonly string[];
  /** The levels' names with dots between. */
  readonly rule: string;
  readonly algorithm: Limit['algorithm'];
  /** Domain and levels as a part of a statistic's name: two rules may have the same. */
  readonly key: string;
  totalHits: number;
  withinLimit: number;
  nearLimit: number;
  overLimit: number;
  /** Those of `overLimit` that were refused from memory of an earlier refusal. */
  overLimitWithLocalCache: number;
  shadowMode: number;
  /** Hits of requests that passed on the soft part of a limit. */
  softLimit: number;
}

type Limited = Extract<Verdict, { kind: 'limited' }>;

/** Why a request had no answer: the counters could not be reached, or anything else. */
export type FailedBy = 'store' | 'service';

/** Counts what is answered. Nothing here is on the way of a request: it is told afterwards. */
export interface Statistics {
  answered(domain: string, answer: Answer): void;
  /** A request had no answer, for this cause. */
  failed(cause: unknown): void;
  /** One call of gRPC, by its method's name such as `ShouldRateLimit`. */
  called(method: string): void;
  rulesLoaded(ok: boolean): void;
  /** Each rule that was hit so far. */
  rules(): Iterable<RuleCounts>;
  /** Requests by overall code. */
  readonly answers: Readonly<Record<Code, number>>;
  readonly failures: Readonly<Record<FailedBy, number>>;
  /** Calls of gRPC by method. */
  readonly calls: ReadonlyMap<string, number>;
  /** Loads of rules by outcome. */
  readonly loads: Readonly<Record<'success' | 'error', number>>;
  /** Descriptors of domains that have no rules, by domain. */
  readonly unknownDomains: ReadonlyMap<string, number>;
  /** Answers that only the service's own shadow mode made OK. */
  readonly shadowed: () => number;
}

/**
 * Names that callers make, of limits that they bring along, of levels named after what was asked for, and of unknown domains,
 * and that are told apart; what comes after is counted as `(other)`. Rules of the operator's files always have their own.
 */
export const MAX_NAMES = 10_000;
/** So is what has a longer name, in characters, */
export const MAX_NAME_LENGTH = 1_000;
/** and what has more levels. */
export const MAX_NAME_LEVELS = 32;
export const OTHER = '(other)';

/** @param nearLimitRatio  the part of a limit above which hits count as near it, 0 to 1 */
export function createStatistics(nearLimitRatio: number): Statistics {
  const rules = createRuleCounts();
  const unknownDomains = new Map<string, number>();
  const calls = new Map<string, number>();
  const answers: Record<Code, number> = { OK: 0, OVER_LIMIT: 0 };
  const failures: Record<FailedBy, number> = { store: 0, service: 0 };
  const loads = { success: 0, error: 0 };
  let shadowed = 0;

  const count = (domain: string, verdict: Verdict): void => {
    if (verdict.kind === 'no_domain') {
      const isTold =
        domain.length <= MAX_NAME_LENGTH && (unknownDomains.has(domain) || unknownDomains.size < MAX_NAMES);
      increment(unknownDomains, isTold ? domain : OTHER);
    } else if (verdict.kind === 'limited' && verdict.hits > 0) {
      add(rules.of(domain, verdict, verdict.limit), verdict, nearLimitRatio);
    }
  };

  const askFor = (domain: string, { found, hits }: Asked): void => {
    const [limit] = found.kind === 'limited' ? found.limits : [];
    if (found.kind === 'limited' && limit && hits > 0) rules.of(domain, found, limit).totalHits += hits;
  };

  return {
    answered(domain, answer) {
      answers[answer.overallCode]++;
      if (answer.shadowed) shadowed++;
      for (const verdict of answer.verdicts) count(domain, verdict);
    },
    failed(cause) {
      failures[cause instanceof StoreUnavailable ? 'store' : 'service']++;
      if (cause instanceof Undecided) for (const one of cause.asked) askFor(cause.domain, one);
    },
    called: (method) => increment(calls, method),
    rulesLoaded(ok) {
      loads[ok ? 'success' : 'error']++;
    },
    rules: rules.all,
    answers,
    failures,
    calls,
    loads,
    unknownDomains,
    shadowed: () => shadowed,
  };
}

const increment = (counts: Map<string, number>, name: string): void => {
  counts.set(name, (counts.get(name) ?? 0) + 1);
};

type Found = { readonly rule: Rule; readonly levels: readonly string[] };

/** The counts of each rule, by what its statistics are kept under and by algorithm. */
function createRuleCounts() {
  const known = new Map<string, RuleCounts>();
  const byLimit = new WeakMap<Limit, RuleCounts>(); // of rules whose statistics have one name, whatever is asked
  const others = newCounts(OTHER, [OTHER], 'fixed_window');
  let namesOfCallers = 0;
  const byName = (domain: string, { rule, levels }: Found, { algorithm }: Limit): RuleCounts => {
    const path = levels.join('.');
    const name = `${algorithm} ${domain.length}:${domain}.${path}`; // a dot in a domain makes two paths read alike
    const counts = known.get(name);
    if (counts) return counts;
    if (rule.named !== 'by_rule') {
      const isTooLong = path.length > MAX_NAME_LENGTH || levels.length > MAX_NAME_LEVELS;
      if (isTooLong || namesOfCallers >= MAX_NAMES) return others;
      namesOfCallers++;
    }
    const fresh = newCounts(domain, levels, algorithm);
    known.set(name, fresh);
    return fresh;
  };
  return {
    of(domain: string, found: Found, limit: Limit): RuleCounts {
      const known = byLimit.get(limit);
      if (known) return known;
      const counts = byName(domain, found, limit);
      if (found.rule.named === 'by_rule') byLimit.set(limit, counts);
      return counts;
    },
    all: (): readonly RuleCounts[] => [...known.values(), ...(others.totalHits > 0 ? [others] : [])],
  };
}

function newCounts(domain: string, levels: readonly string[], algorithm: Limit['algorithm']): RuleCounts {
  const rule = levels.join('.');
  return {
    ...{ domain, levels, rule, algorithm, key: asStatisticName(`${domain}.${rule}`) },
    ...{ totalHits: 0, withinLimit: 0, nearLimit: 0, overLimit: 0 },
    ...{ overLimitWithLocalCache: 0, shadowMode: 0, softLimit: 0 },
  };
}

/**
 * Attributes a request's hits by envoyproxy/ratelimit's arithmetic: those beyond the limit are over it, those between the
 * near mark and the limit near it; a request that passes is within it, with all its hits. What is refused from memory of an
 * earlier refusal is over the limit whole.
 */
function add(counts: RuleCounts, { limit, decision, hits, rule }: Limited, ratio: number): void {
  const before = decision.hitsBefore;
  const after = before + hits;
  const full = softLimitOf(limit);
  const nearMark = Math.floor(Math.fround(Math.fround(full) * Math.fround(ratio))); // single precision, as there
  counts.totalHits += hits;
  if (decision.code === 'OK') {
    counts.withinLimit += hits;
    if (decision.soft) counts.softLimit += hits;
    if (after > nearMark) counts.nearLimit += before >= nearMark ? hits : after - nearMark;
    return;
  }
  const over = decision.fromCache || before >= full ? hits : after - full;
  counts.overLimit += over;
  if (decision.fromCache) counts.overLimitWithLocalCache += hits;
  if (over < hits) counts.nearLimit += full - Math.max(nearMark, before);
  if (rule.shadow) counts.shadowMode += over;
}
