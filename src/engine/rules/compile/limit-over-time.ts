import { fullCapacity, hasHolders, unitOf } from '../../holds/limits.ts';
import type { RuleLimit, RuleSchedule, ScheduleEntry } from '../match/tree.ts';
import type { Block } from '../read/block.ts';
import { Problems } from '../read/problem.ts';
import { type ActiveTimes, readActive } from '../time/active-times.ts';
import { laidLimit } from './laid-limit.ts';
import { buildLimit, type NodeModes } from './limits.ts';

type LimitBlock = Block<'rate_limit'>;

interface NodeLimits {
  /** For listing: the node's own in order, then those of schedules. */
  readonly limits: readonly RuleLimit[];
  /** When each limit applies; undefined if all always apply. */
  readonly schedule: RuleSchedule | undefined;
}

/** Reads the limits of a node with their times. Invalid ones are left out: `problems` has the reasons then. */
export function buildLimits(
  blocks: readonly LimitBlock[],
  modesOf: (block: LimitBlock) => NodeModes,
  problems: Problems,
): NodeLimits {
  const built = blocks.flatMap((block, at) => {
    const limits = buildLimitOverTime(block, { of: at, modes: modesOf(block) }, problems);
    return limits ? [limits] : [];
  });
  const overTime = withOwnCounters(built);
  return { limits: allLimits(overTime), schedule: createSchedule(overTime) };
}

/**
 * Reads one limit with its times: those of its schedule in order, then its own. Undefined if it says `unlimited`, or is
 * invalid: `problems` has the reason then.
 *
 * @param context  `of` is its index among the limits of the node
 */
function buildLimitOverTime(
  block: LimitBlock,
  { of, modes }: { readonly of: number; readonly modes: NodeModes },
  problems: Problems,
): LimitOverTime | undefined {
  const { active: ownActive, schedule = [], replaces = [] } = block.values;
  const own = buildLimit(block, modes, problems);
  if (!ownActive && schedule.length === 0) return own && [{ limit: own }];
  const before = problems.all.length;
  if (ownActive && replaces.length > 0)
    problems.error(
      block.place('active'),
      'active and replaces are mutually exclusive: give the replaced limit a schedule instead',
    );
  const limits = schedule.flatMap((entry) => buildScheduled(entry, { block, of, own, modes }, problems) ?? []);
  const active = ownActive && readActive(ownActive, problems);
  if (!own || problems.all.length > before) return undefined;
  const all = [...limits, active ? { active, limit: { ...own, times: { of, active } } } : { limit: own }];
  return checkHolders({ all, own }, block, problems) ? all : undefined;
}

interface Scheduling {
  readonly block: LimitBlock;
  readonly of: number;
  readonly own: RuleLimit | undefined;
  readonly modes: NodeModes;
}

function buildScheduled(
  entry: Block<'scheduled'>,
  { block, of, own, modes }: Scheduling,
  problems: Problems,
): LimitAtTimes | undefined {
  const { active: times, unlimited, ...numbers } = entry.values;
  if (!times && !entry.invalid.has('active'))
    problems.error(entry.place('active'), 'an entry of schedule requires active: when it applies');
  const active = times && readActive(times, problems);
  if (unlimited) {
    const [key] = Object.keys(numbers);
    if (key !== undefined)
      return problems.error(
        entry.place('unlimited'),
        `unlimited and ${key} are mutually exclusive: remove one of them`,
      );
    return active && { active, limit: undefined };
  }
  if (block.values.unlimited) return undefined; // reported already
  const { active: _, schedule: __, ...values } = block.values;
  const found = new Problems();
  const limit = buildLimit(laidLimit({ ...block, values }, { ...entry, values: numbers }), modes, found);
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

function allLimits(limits: readonly LimitOverTime[]): readonly RuleLimit[] {
  const own = limits.flatMap((one) => one.at(-1)?.limit ?? []);
  return [...own, ...limits.flatMap((one) => one.slice(0, -1).flatMap(({ limit }) => limit ?? []))];
}

/**
 * Gives limits of a node with the same algorithm and window separate counters. Limits of one schedule share theirs. The
 * node's own limits are numbered first, so that adding an entry to a schedule renames none of their counters.
 */
function withOwnCounters(limits: readonly LimitOverTime[]): readonly LimitOverTime[] {
  const seen = new Map<string, number>();
  const numbered = limits.map(() => new Map<string, number>());
  const number = (of: number, counter: string): void => {
    if (numbered[of]?.has(counter)) return;
    const place = seen.get(counter) ?? 0;
    numbered[of]?.set(counter, place);
    seen.set(counter, place + 1);
  };
  for (const listed of [limits.map((one) => one.slice(-1)), limits])
    for (const [of, one] of listed.entries()) for (const { limit } of one) if (limit) number(of, limit.limit.counter);
  return limits.map((one, of) =>
    one.map((at) => {
      const place = numbered[of]?.get(at.limit?.limit.counter ?? '') ?? 0;
      if (!at.limit || place === 0) return at;
      const { limit } = at.limit;
      return { ...at, limit: { ...at.limit, limit: { ...limit, counter: `${limit.counter}#${place}` } } };
    }),
  );
}

/** One limit over time: the first of these that is active applies; if none is, there is no limit. */
type LimitOverTime = readonly LimitAtTimes[];

interface LimitAtTimes {
  /** When it applies. Default: always. */
  readonly active?: ActiveTimes;
  /** The limit; undefined if these times are unlimited. */
  readonly limit: RuleLimit | undefined;
}

/**
 * Decides which limits of a rule apply at a time. The result is cached until it changes: a decision compares two
 * numbers.
 */
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
