import { capacityOf } from '../../algorithms/index.ts';
import type { RuleLimit, RuleSchedule, ScheduleEntry } from '../match/tree.ts';
import type { ActiveTimes } from '../time/active-times.ts';

/** One limit over time: the first of these that is active applies; if none is, there is no limit. */
export type LimitOverTime = readonly LimitAtTimes[];

export interface LimitAtTimes {
  /** Absent: always. */
  readonly active?: ActiveTimes;
  /** Undefined: unlimited at these times. */
  readonly limit: RuleLimit | undefined;
}

/**
 * Decides which limits of a rule apply at a time. The result is cached until it changes: a decision compares two
 * numbers.
 */
export class Schedule implements RuleSchedule {
  readonly #limits: readonly LimitOverTime[];
  #inForce: readonly RuleLimit[] = [];
  #fromMs = Number.POSITIVE_INFINITY;
  #untilMs = Number.NEGATIVE_INFINITY;

  constructor(limits: readonly LimitOverTime[]) {
    this.#limits = limits;
  }

  at(nowMs: number): readonly RuleLimit[] {
    if (nowMs >= this.#untilMs || nowMs < this.#fromMs) this.#move(nowMs);
    return this.#inForce;
  }

  changesAtMs(nowMs: number): number {
    return Math.min(...this.#limits.map((one) => changeOf(one, nowMs)));
  }

  map(change: (limit: RuleLimit) => RuleLimit | undefined): Schedule {
    return new Schedule(
      this.#limits.map((one) => one.map(({ limit, ...at }) => ({ ...at, limit: limit && change(limit) }))),
    );
  }

  toJSON(): readonly (readonly ScheduleEntry[])[] {
    return this.#limits.map((one) =>
      one.map(({ active, limit }) => ({
        ...(active && { active: active.text }),
        ...(limit ? { limit } : { unlimited: true }),
      })),
    );
  }

  #move(nowMs: number): void {
    let untilMs = Number.POSITIVE_INFINITY;
    this.#inForce = this.#limits.flatMap((one): RuleLimit[] => {
      const changeMs = changeOf(one, nowMs);
      untilMs = Math.min(untilMs, changeMs);
      const limit = choiceOf(one, nowMs)?.limit;
      if (!limit) return [];
      return changeMs < Number.POSITIVE_INFINITY && mayAdmitMore(choiceOf(one, changeMs)?.limit, limit)
        ? [{ ...limit, endsAtMs: changeMs }]
        : [limit];
    });
    this.#fromMs = nowMs;
    this.#untilMs = untilMs;
  }
}

const choiceOf = (limits: LimitOverTime, nowMs: number): LimitAtTimes | undefined =>
  limits.find(({ active }) => active === undefined || active.isActive(nowMs));

/** The time when another limit takes over: the current one ends, or one with precedence begins. */
function changeOf(limits: LimitOverTime, nowMs: number): number {
  let changeMs = Number.POSITIVE_INFINITY;
  for (const { active } of limits) {
    if (active === undefined) break;
    changeMs = Math.min(changeMs, active.changesAtMs(nowMs));
    if (active.isActive(nowMs)) break;
  }
  return changeMs;
}

/** Whether a limit may admit hits that the current one refuses: it has another counter, or more room. */
const mayAdmitMore = (next: RuleLimit | undefined, current: RuleLimit): boolean =>
  next === undefined ||
  next.limit.counter !== current.limit.counter ||
  next.limit.requestsPerUnit > current.limit.requestsPerUnit ||
  capacityOf(next.limit) > capacityOf(current.limit);
