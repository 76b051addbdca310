import { type Limit, softLimitOf } from '../algorithms/limit.ts';
import type { Answer, Code, Verdict } from '../decide.ts';

/** What became of the hits of one rule, in hits. The names are envoyproxy/ratelimit's. */
export interface RuleCounts {
  readonly domain: string;
  readonly rule: string;
  readonly algorithm: Limit['algorithm'];
  totalHits: number;
  withinLimit: number;
  nearLimit: number;
  overLimit: number;
  shadowMode: number;
  /** Hits of requests that passed on the soft part of a limit. */
  softLimit: number;
}

type Limited = Extract<Verdict, { kind: 'limited' }>;

/** Counts what is answered. Nothing here is on the way of a request: it is told afterwards. */
export interface Statistics {
  answered(domain: string, answer: Answer): void;
  /** Each rule that was hit so far. */
  rules(): Iterable<RuleCounts>;
  /** Requests by overall code. */
  readonly answers: Readonly<Record<Code, number>>;
  /** Descriptors of domains that have no rules, by domain. */
  readonly unknownDomains: ReadonlyMap<string, number>;
  /** Answers that only the service's own shadow mode made OK. */
  readonly shadowed: () => number;
}

/**
 * Names that callers make, of limits that they bring along and of unknown domains, and that are told apart; what comes after is
 * counted as `(other)`. Rules of the operator's files always have their own.
 */
const MAX_NAMES = 10_000;
/** So is what has a longer name. */
const MAX_NAME_LENGTH = 1_000;
const OTHER = '(other)';

/** @param nearLimitRatio  the part of a limit above which hits count as near it, 0 to 1 */
export function createStatistics(nearLimitRatio: number): Statistics {
  const rules = new Map<string, RuleCounts>();
  const unknownDomains = new Map<string, number>();
  const answers: Record<Code, number> = { OK: 0, OVER_LIMIT: 0 };
  let shadowed = 0;

  const newCounts = (domain: string, rule: string, algorithm: Limit['algorithm']): RuleCounts => {
    const none = { totalHits: 0, withinLimit: 0, nearLimit: 0, overLimit: 0, shadowMode: 0, softLimit: 0 };
    return { domain, rule, algorithm, ...none };
  };

  const countsOf = (domain: string, { rule, levels, limit: { algorithm } }: Limited): RuleCounts => {
    const path = levels.join('.');
    const name = `${algorithm} ${domain.length}:${domain}.${path}`; // a dot in a domain makes two paths read alike
    const known = rules.get(name);
    if (known) return known;
    const isOfCaller = rule.named !== 'by_rule';
    if (isOfCaller && (namesOfCallers >= MAX_NAMES || path.length > MAX_NAME_LENGTH)) return others;
    if (isOfCaller) namesOfCallers++;
    const counts = newCounts(domain, path, algorithm);
    rules.set(name, counts);
    return counts;
  };
  let namesOfCallers = 0;
  const others = newCounts(OTHER, OTHER, 'fixed_window');

  const count = (domain: string, verdict: Verdict): void => {
    if (verdict.kind === 'no_domain') {
      const isTold =
        domain.length <= MAX_NAME_LENGTH && (unknownDomains.has(domain) || unknownDomains.size < MAX_NAMES);
      const name = isTold ? domain : OTHER;
      unknownDomains.set(name, (unknownDomains.get(name) ?? 0) + 1);
    } else if (verdict.kind === 'limited' && verdict.hits > 0) {
      add(countsOf(domain, verdict), verdict, nearLimitRatio);
    }
  };

  return {
    answered(domain, answer) {
      answers[answer.overallCode]++;
      if (answer.shadowed) shadowed++;
      for (const verdict of answer.verdicts) count(domain, verdict);
    },
    rules: () => [...rules.values(), ...(others.totalHits > 0 ? [others] : [])],
    answers,
    unknownDomains,
    shadowed: () => shadowed,
  };
}

/**
 * Attributes a request's hits by envoyproxy/ratelimit's arithmetic: those beyond the limit are over it, those between the
 * near mark and the limit near it; a request that passes is within it, with all its hits.
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
  const over = before >= full ? hits : after - full;
  counts.overLimit += over;
  if (over < hits) counts.nearLimit += full - Math.max(nearMark, before);
  if (rule.shadow) counts.shadowMode += over;
}
