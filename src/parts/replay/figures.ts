import { HurtKeys, type KeyBudget, type KeyRefusals, mostRefused, PeakHits } from './key-figures.ts';
import {
  byRule,
  type RecordedRequest,
  type ReplayedAnswer,
  type ReplayedCode,
  type ReplayedDescriptor,
  type ReplayObserver,
} from './request.ts';

/** Requests by outcome. */
class Counts {
  admitted = 0;
  refused = 0;

  count(code: ReplayedCode): void {
    if (code === 'OK') this.admitted++;
    else this.refused++;
  }

  get counts() {
    const { admitted, refused } = this;
    return { requests: admitted + refused, admitted, refused };
  }
}

/** Outcomes of the descriptors that matched one rule. */
export type RuleFigures = Readonly<ReturnType<RuleSide['figures']>>;

export type Figures = Readonly<ReturnType<ReplayFigures['result']>>;

/** Maximum number of refused keys counted individually. */
const MAX_HURT_KEYS = 500_000;
/** Maximum number of admitted keys whose hits within a window are counted individually. */
const MAX_RECENT_KEYS = 200_000;
/** Maximum number of rules counted individually; a limit in a request makes a rule of each descriptor. */
export const MAX_RULES = 20_000;
/** The rule under which further rules are counted. */
export const OTHER_RULES = '(other)';
/** Number of listed keys. */
const MAX_LISTED = 10;

/** Aggregates a replay in bounded memory. */
export class ReplayFigures implements ReplayObserver {
  readonly #maxHurtKeys: number;
  readonly #rules: Side;
  #against: Side | undefined;
  /** Recorded refusals, by the keys of the rules. */
  #recorded: HurtKeys | undefined;
  #firstMs: number | undefined;
  #lastMs: number | undefined;
  readonly #answers = { answers: 0, same: 0 };
  /**
   * Errors of the last rule set by label, if requests are labelled. `wrong` were refused but labelled allow, `missed`
   * were admitted but labelled refuse.
   */
  readonly #labels = { labelled: 0, wrong: 0, missed: 0 };
  /** Differences between two rule sets, or between the recorded answers and the rules, among requests with both. */
  readonly #change = { compared: 0, newlyRefused: 0, newlyAdmitted: 0 };

  /** @param maxHurtKeys  maximum number of refused keys of one side counted individually */
  constructor(maxHurtKeys = MAX_HURT_KEYS) {
    this.#maxHurtKeys = maxHurtKeys;
    this.#rules = new Side(maxHurtKeys);
  }

  observe(recorded: RecordedRequest, answer: ReplayedAnswer, against?: ReplayedAnswer): void {
    this.#firstMs ??= recorded.timeMs;
    this.#lastMs = recorded.timeMs;
    this.#rules.add(recorded, answer);
    if (against) {
      this.#against ??= new Side(this.#maxHurtKeys);
      this.#against.add(recorded, against);
      this.#compare(answer.code, against.code);
    }
    this.#addRecorded(recorded, answer, against !== undefined);
    if (recorded.label) this.#addLabel(recorded.label, (against ?? answer).code);
  }

  result() {
    const own = this.#rules.hurtSubjects();
    const others = this.#against?.hurtSubjects();
    const before = others ? own : this.#recorded && sumBySubject([this.#recorded]);
    const sides = [this.#rules, this.#against, this.#recorded];
    return {
      /** Times of the first and the last request; undefined without requests. */
      firstMs: this.#firstMs,
      lastMs: this.#lastMs,
      rules: this.#rules.figures(own.size),
      /** Figures of the other rules, if the rules are compared. */
      against: others && this.#against?.figures(others.size),
      /** Changes from the rules to the other rules or, without those, from the recorded answers to the rules. */
      change: before && { ...this.#change, ...keyChanges(before, others ?? own) },
      /** Comparison with the recorded answers, if any. */
      recorded: this.#answers.answers > 0 ? this.#answers : undefined,
      labels: this.#labels.labelled > 0 ? this.#labels : undefined,
      /** Maximum number of refused keys counted individually, per side. */
      maxHurtKeys: this.#maxHurtKeys,
      /** Refusals of further keys, on the side with most of them. */
      untrackedRefusals: Math.max(...sides.map((side) => side?.untracked ?? 0)),
    };
  }

  #addRecorded({ answer: recorded, timeMs }: RecordedRequest, answer: ReplayedAnswer, hasAgainst: boolean): void {
    if (!recorded) return;
    this.#answers.answers++;
    if (isSameAnswer(recorded, answer)) this.#answers.same++;
    if (hasAgainst) return;
    this.#recorded ??= new HurtKeys({ left: this.#maxHurtKeys });
    if (recorded.code === 'OVER_LIMIT') {
      const refused = recorded.descriptors ?? codesBehind(recorded.code, answer);
      for (const [at, first] of answer.descriptors.entries())
        for (const one of refused[at]?.code === 'OVER_LIMIT' ? byRule(first) : [])
          if (one.key !== undefined && (one === first || one.code === 'OVER_LIMIT'))
            this.#recorded.refused(one.key, timeMs);
    }
    this.#compare(recorded.code, answer.code);
  }

  #compare(before: ReplayedCode, after: ReplayedCode): void {
    this.#change.compared++;
    if (before === after) return;
    if (after === 'OVER_LIMIT') this.#change.newlyRefused++;
    else this.#change.newlyAdmitted++;
  }

  #addLabel(label: NonNullable<RecordedRequest['label']>, code: ReplayedCode): void {
    this.#labels.labelled++;
    if (label === 'allow' && code === 'OVER_LIMIT') this.#labels.wrong++;
    if (label === 'refuse' && code === 'OK') this.#labels.missed++;
  }
}

/**
 * Codes of the descriptors when only the code of the answer was recorded, as in an access log, taken from the replay if
 * its answer has the same code. A refusal does not show which of several descriptors was refused.
 */
export function codesBehind(code: ReplayedCode, answer: ReplayedAnswer): readonly { readonly code: ReplayedCode }[] {
  if (code === answer.code) return answer.descriptors;
  if (code === 'OVER_LIMIT' && answer.descriptors.length > 1) return [];
  return answer.descriptors.map(() => ({ code }));
}

/** Whether a replayed answer equals the recorded one, as far as that was recorded. */
export function isSameAnswer(recorded: NonNullable<RecordedRequest['answer']>, answer: ReplayedAnswer): boolean {
  const { code, descriptors } = recorded;
  if (code !== answer.code) return false;
  if (!descriptors) return true;
  if (descriptors.length !== answer.descriptors.length) return false;
  return descriptors.every((one, at) => {
    const replayed = answer.descriptors[at];
    return one.code === replayed?.code && one.remaining === replayed.remaining;
  });
}

class RuleSide extends Counts {
  readonly hurt: HurtKeys;
  limit: { readonly limit: number; readonly currency?: string } = { limit: 0 };
  peaks: PeakHits | undefined;
  readonly #recentKeys: KeyBudget;

  constructor(hurtKeys: KeyBudget, recentKeys: KeyBudget) {
    super();
    this.hurt = new HurtKeys(hurtKeys);
    this.#recentKeys = recentKeys;
  }

  add(descriptor: ReplayedDescriptor, timeMs: number, passed: boolean): void {
    const { key, code, limit = 0, windowMs = 0, hits = 0, currency } = descriptor;
    this.count(code);
    if (key === undefined) return;
    if (code === 'OVER_LIMIT') return this.hurt.refused(key, timeMs);
    this.hurt.admitted(key);
    if (!passed || hits <= 0 || windowMs === 0) return;
    if (this.peaks?.windowMs !== windowMs) {
      if (this.peaks) return; // only the first of a rule's limits to be reported
      this.peaks = new PeakHits(windowMs, this.#recentKeys);
      this.limit = { limit, ...(currency !== undefined && { currency }) };
    }
    this.peaks.admitted(key, hits, timeMs);
  }

  figures() {
    const { hurt, peaks, limit } = this;
    return {
      ...this.counts,
      /** Keys with a refusal; a lower bound if `untrackedRefusals` is above 0. */
      keysHurt: hurt.all.size,
      untrackedRefusals: hurt.untracked,
      firstRefusal: hurt.first,
      /** Longest time between two refusals of a key without an admission in between, and its start. */
      longestLockOut: hurt.longest,
      /** Maximum hits of one key admitted within a window of the rule's length; see `PeakHits`. */
      peak: peaks?.peak && { ...peaks.peak, windowMs: peaks.windowMs, ...limit },
      mostRefused: mostRefused(hurt.refusals(), MAX_LISTED),
    };
  }
}

class Side extends Counts {
  readonly #rules = new Map<string, RuleSide>();
  readonly #hurtKeys: KeyBudget;
  readonly #recentKeys: KeyBudget = { left: MAX_RECENT_KEYS };

  constructor(maxHurtKeys: number) {
    super();
    this.#hurtKeys = { left: maxHurtKeys };
  }

  add({ timeMs }: RecordedRequest, { code, descriptors }: ReplayedAnswer): void {
    this.count(code);
    for (const descriptor of descriptors)
      for (const one of byRule(descriptor))
        (this.#rules.get(one.rule) ?? this.#begin(one.rule)).add(one, timeMs, code === 'OK');
  }

  #begin(path: string): RuleSide {
    if (this.#rules.size >= MAX_RULES && path !== OTHER_RULES)
      return this.#rules.get(OTHER_RULES) ?? this.#begin(OTHER_RULES);
    const rule = new RuleSide(this.#hurtKeys, this.#recentKeys);
    this.#rules.set(path, rule);
    return rule;
  }

  /** Refusals of keys beyond the bound. */
  get untracked(): number {
    return [...this.#rules.values()].reduce((sum, { hurt }) => sum + hurt.untracked, 0);
  }

  /** @param keysHurt  size of `hurtSubjects` */
  figures(keysHurt: number) {
    const rules = [...this.#rules].sort(([one], [other]) => (one < other ? -1 : 1));
    return { ...this.counts, keysHurt, rules: new Map(rules.map(([path, rule]) => [path, rule.figures()])) };
  }

  /** Refusals by domain and entries, summed over the limits that refused them. */
  hurtSubjects(): ReadonlyMap<string, number> {
    return sumBySubject(Array.from(this.#rules.values(), ({ hurt }) => hurt));
  }
}

function sumBySubject(all: readonly HurtKeys[]): ReadonlyMap<string, number> {
  const refusals = new Map<string, number>();
  for (const hurt of all)
    for (const one of hurt.refusals()) {
      const subject = counterSubject(one.key);
      refusals.set(subject, (refusals.get(subject) ?? 0) + one.refusals);
    }
  return refusals;
}

/** Domain and entries of a counter's key, which a change of the limit does not affect. */
export function counterSubject(key: string): string {
  const at = /\|(?=\d+:|#)/.exec(key)?.index;
  return at === undefined ? key : key.slice(at + 1);
}

/** The number of keys that only one of the two sides refused, and newly hurt keys with most refusals. */
function keyChanges(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>) {
  const newlyHurt = [...missing(after, before)];
  const keysNewlySpared = [...missing(before, after)].length;
  return { keysNewlyHurt: newlyHurt.length, keysNewlySpared, newlyHurt: mostRefused(newlyHurt, MAX_LISTED) };
}

/** The keys of one side that the other side does not have. */
function* missing(keys: ReadonlyMap<string, number>, others: ReadonlyMap<string, number>): Iterable<KeyRefusals> {
  for (const [key, refusals] of keys) if (!others.has(key)) yield { key, refusals };
}
