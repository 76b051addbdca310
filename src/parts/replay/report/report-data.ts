import type { RequestDescriptor } from '../../../engine/decide/decide.ts';
import { codesBehind, MAX_RULES, OTHER_RULES } from '../figures.ts';
import { BudgetedKeys, type KeyBudget } from '../key-figures.ts';
import {
  byRule,
  type RecordedRequest,
  type ReplayedAnswer,
  type ReplayedCode,
  type ReplayedDescriptor,
  type ReplayObserver,
} from '../request.ts';
import { compareOutcomes, OutcomeSeries, type RequestOutcome, TimeAxis } from './time-axis.ts';

/** Maximum number of keys, over all rules, whose requests are counted individually, at about 150 octets each. */
const MAX_KEYS = 300_000;

/** A limit as in a rule: requests per window, or billionths of its currency for a budget. */
interface ShownLimit {
  readonly limit: number;
  readonly windowMs: number;
  readonly currency: string | undefined;
}

/** The data that the report shows for one rule. */
export interface RuleData {
  readonly series: OutcomeSeries;
  readonly keys: KeyTable;
  before: ShownLimit | undefined;
  after: ShownLimit | undefined;
}

type TimedDescriptor = RequestDescriptor & { readonly timeMs: number };

/** Collects the data for plots of a replay, in memory bounded by the number of rules. */
export class ReportData implements ReplayObserver {
  readonly axis = new TimeAxis();
  readonly #budget: KeyBudget;
  readonly all = new OutcomeSeries(this.axis);
  readonly rules = new Map<string, RuleData>();
  readonly #maxRules: number;
  #isChange = false;

  /**
   * @param maxKeys   maximum over all rules; of further keys, only the requests are counted
   * @param maxRules  maximum number of rules counted individually
   */
  constructor(maxKeys = MAX_KEYS, maxRules = MAX_RULES) {
    this.#budget = { left: maxKeys };
    this.#maxRules = maxRules;
  }

  /** Requests of keys beyond the bound. */
  get untracked(): number {
    return Array.from(this.rules.values()).reduce((sum, { keys }) => sum + keys.untracked, 0);
  }

  /** Whether there are answers of two rule sets, or recorded answers to compare. */
  get isChange(): boolean {
    return this.#isChange;
  }

  observe(recorded: RecordedRequest, answer: ReplayedAnswer, against?: ReplayedAnswer): void {
    const { timeMs, request } = recorded;
    this.axis.reach(timeMs);
    const after = against ?? answer;
    const before = against ? answer : recordedSide(recorded, answer);
    if (before !== after) this.#isChange = true;
    this.all.add(timeMs, compareOutcomes(isRefusal(before), isRefusal(after)));
    for (let at = 0; at < request.descriptors.length; at++) {
      const descriptor = request.descriptors[at];
      if (descriptor) this.#addDescriptor({ ...descriptor, timeMs }, before.descriptors[at], after.descriptors[at]);
    }
  }

  #addDescriptor(descriptor: TimedDescriptor, before: ReplayedDescriptor | undefined, after: typeof before): void {
    const left = new Map(Array.from(byRule(after), (one) => [one.rule, one]));
    for (const one of byRule(before)) {
      this.#addTo(one.rule, descriptor, one, left.get(one.rule));
      left.delete(one.rule);
    }
    for (const one of left.values()) this.#addTo(one.rule, descriptor, undefined, one);
  }

  #addTo(
    path: string,
    { entries, hits, timeMs }: TimedDescriptor,
    before: ReplayedDescriptor | undefined,
    after: ReplayedDescriptor | undefined,
  ): void {
    const rule = this.#ruleAt(path);
    const refused = { before: isRefusal(before), after: isRefusal(after) };
    rule.series.add(timeMs, compareOutcomes(refused.before, refused.after));
    if (!this.rules.has(path)) return; // counted under `OTHER_RULES`, which have no common limit
    rule.before ??= findLimit(before);
    rule.after ??= findLimit(after);
    const { windowMs } = rule.after ?? rule.before ?? {};
    if (windowMs === undefined) return; // an unlimited rule
    const name = formatName(entries, after?.key ?? before?.key);
    const counted = after?.hits ?? before?.hits ?? hits;
    rule.keys.count(name, Math.max(counted, 0), Math.floor(timeMs / windowMs), refused);
  }

  #ruleAt(path: string): RuleData {
    const known = this.rules.get(path);
    if (known) return known;
    if (this.rules.size >= this.#maxRules && path !== OTHER_RULES) return this.#ruleAt(OTHER_RULES);
    const series = new OutcomeSeries(this.axis);
    const rule = { series, keys: new KeyTable(this.#budget), before: undefined, after: undefined };
    this.rules.set(path, rule);
    return rule;
  }
}

/** The limit in a descriptor's answer; of several, the first one reported. */
function findLimit(descriptor: ReplayedDescriptor | undefined): ShownLimit | undefined {
  if (descriptor?.windowMs === undefined) return undefined;
  const { limit = 0, windowMs, currency } = descriptor;
  return { limit, windowMs, currency };
}

const MAX_NAME_CHARACTERS = 200;

/**
 * Formats a name such as `user=alice, plan=gold`; a long name is cut, and ends with its counter's key, which holds a
 * digest.
 */
function formatName(entries: RequestDescriptor['entries'], counter: string | undefined): string {
  let name = '';
  for (const { key, value } of entries) name += `${name === '' ? '' : ', '}${key}=${value}`;
  if (name.length <= MAX_NAME_CHARACTERS) return name;
  return `${name.slice(0, MAX_NAME_CHARACTERS)}…${(counter ?? '').slice(-MAX_NAME_CHARACTERS)}`;
}

const isRefusal = (side: { readonly code: ReplayedAnswer['code'] } | undefined): boolean => side?.code === 'OVER_LIMIT';

/** The recorded answer in place of the answer of other rules, or the answer itself if none was recorded. */
function recordedSide({ answer: recorded }: RecordedRequest, answer: ReplayedAnswer): ReplayedAnswer {
  if (!recorded) return answer;
  const { code } = recorded;
  const codes = recorded.descriptors ?? codesBehind(code, answer);
  const coded = (one: ReplayedDescriptor, known?: ReplayedCode): ReplayedDescriptor => ({
    ...one,
    code: known ?? one.code,
    ...(one.beside && { beside: coded(one.beside, known === 'OK' ? known : undefined) }), // less tight
  });
  return { code, descriptors: answer.descriptors.map((one, at) => coded(one, codes[at]?.code)) };
}

/** The requests and refusals of one key. */
export interface KeyRow {
  requests: number;
  /** Refusals by the rules before and after the change. */
  before: number;
  after: number;
  /** Maximum hits, or cost, within one window of the rule, admitted or not, where windows begin at multiples of their length. */
  busiest: number;
  window: number;
  windowHits: number;
}

/** The keys of a rule, up to a maximum. */
class KeyTable extends BudgetedKeys<KeyRow> {
  /** @param name  identity of the key */
  count(name: string, hits: number, window: number, refused: Readonly<Record<'before' | 'after', boolean>>): void {
    const row =
      this.all.get(name) ?? this.add(name, { requests: 0, before: 0, after: 0, busiest: 0, window, windowHits: 0 });
    if (!row) return;
    row.requests++;
    if (refused.before) row.before++;
    if (refused.after) row.after++;
    if (row.window !== window) {
      row.window = window;
      row.windowHits = 0;
    }
    row.windowHits += hits;
    if (row.windowHits > row.busiest) row.busiest = row.windowHits;
  }
}

export const keyOutcome = ({ before, after }: KeyRow): RequestOutcome => compareOutcomes(before > 0, after > 0);
