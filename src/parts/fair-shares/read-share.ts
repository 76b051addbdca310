import { unitMs } from '../../engine/algorithms/limit.ts';
import { isShared, type Limit, limitsInFlight, type SharedLimit } from '../../engine/holds/limits.ts';
import { type ChildNumbers, priorities, readPriority } from '../../engine/holds/sharing.ts';
import { listExcluded } from '../../engine/rules/compile/excluded.ts';
import { isFixed } from '../../engine/rules/match/matchers.ts';
import type { Rule } from '../../engine/rules/match/tree.ts';
import type { Block } from '../../engine/rules/read/block.ts';
import { dividing } from '../../engine/rules/read/format.ts';
import type { Problems } from '../../engine/rules/read/problem.ts';
import type { FairShareLimit } from './fair-share.ts';
import type { SharedSlotsLimit } from './shared-slots.ts';

/** Maximum number of levels below a shared limit, such as organisation, team and key. */
const MAX_LEVELS = 3;
const MAX_WEIGHT = 1_000;

/** The limit that children share, if the rule says so. */
export function readShare(
  { values, place }: Block<'rate_limit'>,
  { limit: whole, hasId }: { readonly limit: Limit | undefined; readonly hasId: boolean },
  problems: Problems,
): Limit | undefined {
  const { share } = values;
  if (!share) return whole;
  const before = problems.all.length;
  const { by = '', spare: written } = share.values;
  const spare = written === undefined ? undefined : readSpare(written);
  if (spare !== undefined && (spare < 0 || spare > MAX_SPARE))
    problems.error(share.place('spare'), `spare must be 0% to ${MAX_SPARE}%, got '${written}'`);
  if (by === '' && !share.invalid.has('by'))
    problems.error(share.place('by'), 'by must be the key of the entries that share the limit, got nothing');
  const excluded = [...(values.refill === 'interval' ? (['refill'] as const) : []), ...dividing];
  for (const other of new Set([...listExcluded(values), ...excluded.filter((key) => values[key] !== undefined)]))
    problems.error(place(other), `${other} cannot be used with share: remove one of them`);
  if (!whole || share.invalid.size > 0 || problems.all.length > before) return undefined;
  const { counter, requestsPerUnit, windowMs } = whole;
  const sharing = { requestsPerUnit, soft: 0, windowMs, by, path: [], ...(spare !== undefined && { spare }) };
  if (limitsInFlight(whole)) {
    if (hasId) return { algorithm: 'shared_slots', counter: `${counter}|share`, ...sharing } satisfies SharedSlotsLimit;
    return problems.error(
      place('share'),
      'share requires the id of the request with in_flight: put not_counted: hold on this node or one above',
    );
  }
  if (!('burst' in whole) || windowMs > unitMs.MINUTE)
    return problems.error(
      place('share'),
      `share requires a rate per second or minute, so that children soon have their part, got a window of ${windowMs} ms`,
    );
  const { burst } = whole;
  return { algorithm: 'fair_share', counter: `fair_share.3|${windowMs}`, ...sharing, burst } satisfies FairShareLimit;
}

/** Maximum part of a limit that is kept for children that come next, in percent. */
const MAX_SPARE = 50;

/** Whole percent: `5%` or `5`. */
const readSpare = (written: string): number => Number(written.replace('%', ''));

interface Parent {
  readonly rule: Rule | undefined;
  /** The number of entries down to the node above. */
  readonly depth: number;
  /** The node above shares its limit, validly or not. */
  readonly shares: boolean;
}

/** The rule of a node with `share`: the limit of the node above, with the node's own part. */
function buildChild(
  block: Block<'node'>,
  { rule, depth, shares }: Parent,
  problems: Problems,
): Pick<Rule, 'limits' | 'shadow' | 'quota' | 'sharedBelow'> | undefined {
  const { share, key = '', rate_limit: limit, rate_limits: limits, not_counted: id } = block.values;
  const shared = rule?.limits[0];
  const report = (at: 'share' | 'key' | 'not_counted', message: string): undefined =>
    problems.error(block.place(at), message);
  if (!share || share.invalid.size > 0) return undefined; // reported already
  if (limit || limits) return report('share', 'a child cannot have a limit of its own: it has a ceiling');
  if (!rule || !shared || !isShared(shared.limit)) {
    if (shares) return undefined; // the limit above is invalid
    return report('share', `share requires a limit with share: { by: ${key} } on the node above`);
  }
  if (shared.limit.by !== key)
    return report('key', `a child of this limit has the key ${shared.limit.by ?? 'of a level above'}, got '${key}'`);
  if (id !== undefined || (rule.ids && !limitsInFlight(shared.limit)))
    return report('not_counted', 'not_counted cannot be used with share: remove one of them');
  const own = readChild(block, shared.limit, problems);
  if (!own) return undefined;
  return {
    limits: [{ ...shared, limit: own }],
    shadow: rule.shadow,
    quota: rule.quota,
    sharedBelow: rule.sharedBelow ?? depth,
  };
}

/** The limit of the node above, with the child's part of it. */
function readChild(block: Block<'node'>, above: SharedLimit, problems: Problems): SharedLimit | undefined {
  const { share, key = '' } = block.values;
  if (!share) return undefined;
  const { reserve: written, weight = 1, ceiling: ceilingText, priority, by } = share.values;
  const before = problems.all.length;
  const report = (at: 'reserve' | 'weight' | 'ceiling' | 'priority' | 'by', message: string): undefined =>
    problems.error(share.place(at), message);
  const { requestsPerUnit, path } = above;
  const parent = path.at(-1);
  if (path.length === MAX_LEVELS) report('by', `a shared limit has at most ${MAX_LEVELS} levels below it`);
  if (weight < 1 || weight > MAX_WEIGHT) report('weight', `weight must be 1 to ${MAX_WEIGHT}, got ${weight}`);
  const reserve = readRate(written, parent?.reserve ?? requestsPerUnit);
  if (written !== undefined) checkReserve(reserve, { above, block }, (message) => report('reserve', message));
  const most = path.reduce((least, one) => (one.ceiling > 0 ? Math.min(least, one.ceiling) : least), requestsPerUnit);
  const ceiling = readRate(ceilingText, most);
  if (ceilingText !== undefined && (ceiling < Math.max(reserve, 1) || ceiling > most))
    report('ceiling', `ceiling must be ${Math.max(reserve, 1)} to ${most} ${shownUnit(above)}, got '${ceilingText}'`);
  const isStated = priority === 'value';
  const threshold = priority === undefined || isStated ? undefined : readPriority(priority);
  if (priority !== undefined && !isStated && threshold === undefined)
    report(
      'priority',
      `priority must be ${[...priorities.keys()].join(', ')}, 1 to 100 (percent), or value, got '${priority}'`,
    );
  if (problems.all.length > before) return undefined;
  const { by: _, ...common } = above;
  const thresholds = [above.threshold, threshold].filter((one) => one !== undefined);
  return {
    ...common,
    ...(by !== undefined && { by }),
    path: [...path, { key, reserve, weight, ceiling } satisfies ChildNumbers],
    ...(thresholds.length > 0 && { threshold: Math.min(...thresholds) }),
    ...(isStated && { thresholdAt: path.length }),
  };
}

/** What reservations and ceilings of a limit are counted in. */
const shownUnit = (limit: SharedLimit): string => (limitsInFlight(limit) ? 'slots' : 'hits per second');

function checkReserve(
  reserve: number,
  { above, block }: { readonly above: SharedLimit; readonly block: Block<'node'> },
  report: (message: string) => undefined,
): void {
  const { value = '', share_threshold: isOne = false } = block.values;
  const parent = above.path.at(-1);
  if (!isOne && (value === '' || !isFixed(value)))
    report('reserve requires a fixed value: the number of other children is unknown; give them a weight');
  else if (parent?.reserve === 0)
    report(`reserve requires a reserve of the ${parent.key} above, of which it is a part`);
  else if (reserve < 1) report(`reserve must be at least 1 of its ${shownUnit(above)}`);
}

/** Whole hits per second, or slots, rounded down: `20%` of the whole, or a number. */
function readRate(written: string | undefined, whole: number): number {
  if (written === undefined) return 0;
  const rate = written.endsWith('%') ? (whole * Number(written.slice(0, -1))) / 100 : Number(written);
  return Math.floor(rate + ROUNDING);
}

/** 28.999999999999996, which is 29 % of 100, is 29. */
const ROUNDING = 1e-9;

/** The same rule, whose shared limit knows the sum of its children's reservations, which must not exceed its own. */
function withReserved(block: Block<'node'>, rule: Rule, problems: Problems): Rule {
  const [only, ...others] = rule.limits;
  if (!only || !isShared(only.limit) || only.limit.by === undefined) return rule;
  const { path, by, requestsPerUnit } = only.limit;
  const parent = path.at(-1);
  const whole = parent?.reserve ?? requestsPerUnit;
  const children = (block.values.descriptors ?? []).filter(({ values }) => values.key === by);
  const sum = children.reduce((total, { values }) => total + readRate(values.share?.values.reserve, whole), 0);
  if (sum === 0 || whole === 0) return rule;
  if (sum > whole)
    problems.error(
      block.place('descriptors'),
      `reservations add up to ${sum} ${shownUnit(only.limit)}, more than the ${whole} of ${parent ? `this ${parent.key}` : 'the limit'}`,
    );
  const limit: SharedLimit = parent
    ? { ...only.limit, path: [...path.slice(0, -1), { ...parent, reserved: sum }] }
    : { ...only.limit, reserved: sum };
  return { ...rule, limits: [{ ...only, limit }, ...others] };
}

export const shareRules = { buildChild, withReserved };
