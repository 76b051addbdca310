import { fullCapacity, hasHolders, unitOf } from '../../engine/holds/limits.ts';
import { laidLimit } from '../../engine/rules/compile/laid-limit.ts';
import type { LimitTimes, TimedLimit } from '../../engine/rules/compile/timed-limit.ts';
import type {
  LimitAtTimes,
  LimitOverTime,
  RuleLimit,
  RuleSchedule,
  ScheduleEntry,
} from '../../engine/rules/match/tree.ts';
import type { Block } from '../../engine/rules/read/block.ts';
import { Problems } from '../../engine/rules/read/problem.ts';
import { readActive } from './active-times.ts';

type LimitBlock = Block<'rate_limit'>;

function readOverTime(
  block: LimitBlock,
  { of, own, build }: TimedLimit,
  problems: Problems,
): LimitOverTime | undefined {
  const { active: ownActive, schedule = [], replaces = [] } = block.values;
  if (!ownActive && schedule.length === 0) return own && [{ limit: own }];
  const before = problems.all.length;
  if (ownActive && replaces.length > 0)
    problems.error(
      block.place('active'),
      'active cannot be used with replaces: give the replaced limit a schedule instead',
    );
  const limits = schedule.flatMap((entry) => buildScheduled(entry, { block, of, own, build }, problems) ?? []);
  const active = ownActive && readActive(ownActive, problems);
  if (!own || problems.all.length > before) return undefined;
  const all = [...limits, active ? { active, limit: { ...own, times: { of, active } } } : { limit: own }];
  return checkHolders({ all, own }, block, problems) ? all : undefined;
}

interface Scheduling extends TimedLimit {
  readonly block: LimitBlock;
}

function buildScheduled(
  entry: Block<'scheduled'>,
  { block, of, own, build }: Scheduling,
  problems: Problems,
): LimitAtTimes | undefined {
  const { active: times, unlimited, ...numbers } = entry.values;
  if (!times && !entry.invalid.has('active'))
    problems.error(entry.place('active'), 'active must say when the entry applies, got nothing');
  const active = times && readActive(times, problems);
  if (unlimited) {
    const [key] = Object.keys(numbers);
    if (key !== undefined)
      return problems.error(entry.place('unlimited'), `unlimited cannot be used with ${key}: remove one of them`);
    return active && { active, limit: undefined };
  }
  if (block.values.unlimited) return undefined; // reported already
  const { active: _, schedule: __, ...values } = block.values;
  const found = new Problems();
  const limit = build(laidLimit({ ...block, values }, { ...entry, values: numbers }), found);
  const { path } = entry.place();
  problems.add(found.all.filter((one) => own || one.path.startsWith(path))); // else reported already
  return active && limit && { active, limit: { ...limit, times: { of, active } } };
}

/** Hits charged under one limit are refunded under another, so both must use the same counter. */
function checkHolders(
  { all, own }: { readonly all: LimitOverTime; readonly own: RuleLimit },
  block: LimitBlock,
  problems: Problems,
): boolean {
  if (!hasHolders(own.limit) && unitOf(own.limit) === 'hits') return true;
  const isAlways = all.at(-1)?.active === undefined;
  if (isAlways && all.every(({ limit }) => limit?.limit.counter === own.limit.counter)) return true;
  const message =
    'in_flight, allocation and reserve require one counter at all times, since hits may come back after a change: use a schedule that changes only numbers, without active on the limit itself, unlimited or on_change: reset';
  problems.error(block.place(isAlways ? 'schedule' : 'active'), message);
  return false;
}

function createSchedule(limits: readonly LimitOverTime[]): Schedule | undefined {
  const isScheduled = limits.some((one) => one.length > 1 || one.some(({ active }) => active));
  return isScheduled ? new Schedule(limits) : undefined;
}

/** Decides which limits of a rule apply. The result is cached until it changes: a decision compares two numbers. */
class Schedule implements RuleSchedule {
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
    return Math.min(...this.#limits.map((one) => nextChangeMs(one, nowMs)));
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
      const changeMs = nextChangeMs(one, nowMs);
      untilMs = Math.min(untilMs, changeMs);
      const limit = findActive(one, nowMs)?.limit;
      if (!limit) return [];
      return changeMs < Number.POSITIVE_INFINITY && mayAdmitMore(findActive(one, changeMs)?.limit, limit)
        ? [{ ...limit, endsAtMs: changeMs }]
        : [limit];
    });
    this.#fromMs = nowMs;
    this.#untilMs = untilMs;
  }
}

const findActive = (limits: LimitOverTime, nowMs: number): LimitAtTimes | undefined =>
  limits.find(({ active }) => active === undefined || active.isActive(nowMs));

/** The time when another limit takes over: the current one ends, or one with precedence begins. */
function nextChangeMs(limits: LimitOverTime, nowMs: number): number {
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
  fullCapacity(next.limit) > fullCapacity(current.limit);

export const schedules: LimitTimes = { read: readOverTime, schedule: createSchedule };
