import { unitMs } from '../../engine/algorithms/limit.ts';
import { algorithmFor, findNamedRow, namedAlgorithm } from '../../engine/holds/limits.ts';
import { describeLimit } from '../../engine/rules/match/describe-limit.ts';
import { placedNodes } from '../../engine/rules/match/level.ts';
import type { Level, Rule, RuleLimit, RuleTree } from '../../engine/rules/match/tree.ts';
import { counterSubject } from '../replay/figures.ts';
import type { KeyBudget } from '../replay/key-figures.ts';
import { byRule, type RecordedRequest, type ReplayedAnswer, type ReplayObserver } from '../replay/request.ts';
import { adviseOn } from './advise.ts';
import type { Advice, AdvisedLimit, RuleAdvice } from './answers.ts';
import { identifyClients } from './key-sample.ts';
import type { AdviceOptions } from './propose.ts';
import { type Arrival, MAX_HEAVY_KEYS, RuleSketch } from './rule-sketch.ts';

interface SketchBounds {
  /** Maximum number of tracked keys, for all limits together. */
  readonly keys: number;
  /** Maximum number of keys for one limit. */
  readonly keysOfRule: number;
  /** Maximum number of keys whose hits around boundaries of fixed windows are tracked, at about 400 octets each. */
  readonly admittedKeys: number;
}

/** Minimum size of a sample to be halved for another; a smaller one frees less space than the keys of a rule take. */
const MIN_HALVED_KEYS = 4 * MAX_HEAVY_KEYS;

/** An arrival at a rule. */
export interface RuleArrival extends Omit<Arrival, 'isRefused'> {
  readonly rule: string;
  /** Window of the limit that refused it; undefined without a refusal. */
  readonly refusedBy: number | undefined;
}

/** Limits on which to advise. Default: all. */
export interface Chosen {
  readonly domain?: string | undefined;
  readonly rule?: string | undefined;
}

interface Followed {
  readonly limit: AdvisedLimit;
  readonly sketch: RuleSketch;
}

/** Sketches of the limits of rules, in shared memory bounds. */
export class RuleSketches implements ReplayObserver {
  readonly #bounds: SketchBounds;
  /** Seed that decides which keys are sampled. */
  readonly #seed: number;
  readonly #budget: KeyBudget;
  readonly #admittedKeys: KeyBudget;
  readonly #followsShared: boolean;
  #skipped: readonly string[] = [];
  #byRule = new Map<string, readonly Followed[]>();

  /**
   * @param seed           seed of the samples of keys
   * @param followsShared  whether the arrivals at rules whose values share counters are known
   */
  constructor(bounds: SketchBounds, seed: number, followsShared = true) {
    this.#bounds = bounds;
    this.#seed = seed;
    this.#followsShared = followsShared;
    this.#budget = { left: bounds.keys };
    this.#admittedKeys = { left: bounds.admittedKeys };
  }

  /** Tracks the limits of these rules from now on. Limits whose window is unchanged keep their sketch. */
  follow(tree: RuleTree): void {
    const before = this.#byRule;
    const { rules, skipped } = advisedRules(tree);
    const isFollowed = ({ sharesCounters }: AdvisedRule): boolean => this.#followsShared || !sharesCounters;
    const left = rules.filter((rule) => !isFollowed(rule));
    this.#skipped = [
      ...skipped,
      ...left.map(({ path }) => `${path}: its values share a counter; record and replay it`),
    ];
    this.#byRule = new Map();
    for (const rule of rules) {
      if (!isFollowed(rule) || this.#byRule.has(rule.path)) continue;
      const known = before.get(rule.path) ?? [];
      const followed = rule.limits.map((limit) => ({ limit, sketch: this.#openSketch(limit, known) }));
      this.#byRule.set(rule.path, followed);
    }
    const kept = new Set(this.#chosen({}).map(({ sketch }) => sketch));
    for (const { sketch } of [...before.values()].flat()) if (!kept.has(sketch)) this.#budget.left += sketch.charged;
  }

  add({ rule, refusedBy, ...arrival }: RuleArrival): void {
    for (const { limit, sketch } of this.#byRule.get(rule) ?? [])
      sketch.add({ ...arrival, isRefused: refusedBy === limit.windowMs });
  }

  /** Adds a request of a replay. */
  observe({ timeMs, request: { descriptors } }: RecordedRequest, answer: ReplayedAnswer): void {
    const clients = identifyClients(descriptors, this.#seed);
    for (let at = 0; at < descriptors.length; at++) {
      const hits = descriptors[at]?.hits ?? 0;
      for (const { rule, key, windowMs, code, wouldRefuse } of byRule(answer.descriptors[at])) {
        if (key === undefined || windowMs === undefined || hits <= 0) continue; // overrides, peeks, and refunds of hits
        const refusedBy = code === 'OVER_LIMIT' || wouldRefuse ? windowMs : undefined;
        this.add({ rule, key: counterSubject(key), hits, timeMs, refusedBy, client: clients[at], level: 0 });
      }
    }
  }

  /** The advice on each limit with traffic, computed lazily since each takes some milliseconds. */
  *advice(options: AdviceOptions, only: Chosen = {}): Iterable<RuleAdvice> {
    for (const { limit, sketch } of this.#chosen(only)) {
      const observed = sketch.observed();
      if (observed) yield adviseOn(limit, observed, options);
    }
  }

  /** Limits without advice, one text each, because they are no rates or have no traffic. */
  skipped(only: Chosen = {}): Advice['skipped'] {
    const unmet = this.#chosen(only).filter(({ sketch }) => !sketch.isMet);
    return [...this.#skipped, ...new Set(unmet.map(({ limit }) => `${limit.rule}: no request met it`))];
  }

  #chosen({ domain, rule }: Chosen): readonly Followed[] {
    return [...this.#byRule.values()]
      .flat()
      .filter(({ limit }) => (domain ?? limit.domain) === limit.domain && (rule ?? limit.rule) === limit.rule);
  }

  #openSketch(limit: AdvisedLimit, known: readonly Followed[]): RuleSketch {
    const same = known.find((one) => one.limit.windowMs === limit.windowMs && one.limit.at === limit.at);
    if (same && same.limit.requestsPerUnit !== limit.requestsPerUnit) same.sketch.limitChanged();
    return (
      same?.sketch ??
      new RuleSketch({
        windowMs: limit.windowMs,
        maxKeys: this.#bounds.keysOfRule,
        seed: this.#seed,
        budget: this.#budget,
        admittedKeys: findNamedRow(limit.algorithm).windows ? this.#admittedKeys : undefined,
        makeRoom: () => this.#makeRoom(),
      })
    );
  }

  /** Halves the largest sample. */
  #makeRoom(): boolean {
    let largest: RuleSketch | undefined;
    for (const followed of this.#byRule.values())
      for (const { sketch } of followed) if (sketch.size > (largest?.size ?? 0)) largest = sketch;
    if (!largest || largest.size < MIN_HALVED_KEYS) return false;
    largest.halve();
    return this.#budget.left > 0;
  }
}

/** A rule on whose limits advice is possible. */
interface AdvisedRule extends Pick<RulePath, 'sharesCounters'> {
  readonly path: string;
  readonly limits: readonly AdvisedLimit[];
}

/** The limits that are rates, and one text for each other limit. */
export function advisedRules(tree: RuleTree) {
  const rules: AdvisedRule[] = [];
  const skipped: string[] = [];
  const paths = Array.from(tree.domains.values(), ({ root }) => [...pathsBelow(root, [], false)]);
  for (const { rule, nodes, sharesCounters } of paths.flat()) {
    if (rule.unlimited) skipped.push(`${rule.path}: unlimited; give it a limit with shadow_mode first`);
    if (rule.schedule) {
      skipped.push(
        `${rule.path}: its limits depend on the time; for advice on each, use rules without schedule and active`,
      );
      continue;
    }
    const limits = rule.limits.flatMap((limit, at) => {
      const why = limit.limit.currency === undefined ? algorithmFor(limit.limit).notARate : A_BUDGET;
      if (why === undefined) return advisedLimit(rule, nodes, limit, at);
      skipped.push(`${rule.path}: ${why}`);
      return [];
    });
    if (limits.length > 0) rules.push({ path: rule.path, limits, sharesCounters });
  }
  return { rules, skipped };
}

const A_BUDGET = 'a budget counts money; how many requests it admits follows from their cost';

function advisedLimit(rule: Rule, nodes: AdvisedLimit['nodes'], one: RuleLimit, at: number): AdvisedLimit {
  const { limit, label, policy } = one;
  const { requestsPerUnit, windowMs } = limit;
  const isAnchored = 'anchor' in limit && limit.anchor !== undefined;
  const windows = algorithmFor(limit).windows?.(limit) ?? 'epoch';
  return {
    domain: rule.domain,
    rule: rule.path,
    nodes,
    at,
    of: rule.limits.length,
    text: describeLimit(one),
    ...(label.name !== '' && { name: label.name }),
    algorithm: namedAlgorithm(limit),
    requestsPerUnit,
    windowMs,
    ...('burst' in limit && { burst: limit.burst }),
    shadow: policy.shadow ?? false,
    keepsAlgorithm: isAnchored || windows !== 'epoch' || policy.consistency === 'leased' || isQuotaWindow(windowMs),
    leastLimit: Math.max(policy.localShare ?? 1, 1),
  };
}

/** Windows of a day or longer are quotas, whose start is part of the promise to clients. */
const isQuotaWindow = (windowMs: number): boolean => windowMs >= unitMs.DAY;

/** A rule, with the nodes on the path to it. */
interface RulePath {
  readonly rule: Rule;
  readonly nodes: AdvisedLimit['nodes'];
  /** Whether several values share a counter, so that a request's entries do not identify it. */
  readonly sharesCounters: boolean;
}

function* pathsBelow(level: Level, above: AdvisedLimit['nodes'], isSharedAbove: boolean): Iterable<RulePath> {
  for (const { key, value, node } of placedNodes(level)) {
    const own =
      value.kind === 'any_value' ? {} : value.kind === 'addresses' ? { addresses: value.name } : { value: value.text };
    const nodes = [...above, { key: key.text, ...own }];
    const sharesCounters = isSharedAbove || node.sharedValue !== undefined;
    if (node.rule) yield { rule: node.rule, nodes, sharesCounters };
    if (node.children) yield* pathsBelow(node.children, nodes, sharesCounters);
  }
}
