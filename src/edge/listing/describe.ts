import { DEFAULT_ALGORITHM } from '../../engine/algorithms/index.ts';
import { showMoney } from '../../engine/algorithms/money.ts';
import { algorithmFor, isRateLimit, namedAlgorithm, unitOf } from '../../engine/holds/limits.ts';
import type { Domain, Rule, RuleLimit, RuleResponse, ScheduleEntry, UnitCost } from '../../engine/rules/match/tree.ts';
import type { MayBeOverlaid, Overlaid } from '../../engine/rules/read/overlaid.ts';
import { formatLine, shown } from '../../engine/rules/read/problem.ts';
import type { DomainJson, LimitJson, ListedRule, RuleJson } from './shapes.ts';

/**
 * A rule in the format of envoyproxy/ratelimit, one line for each limit: `demo.user: unit=MINUTE requests_per_unit=5,
 * shadow_mode: false, quota_mode: false`. Properties that it does not have follow.
 */
export const describeRule = (rule: Rule): string => describeLines(rule).join('\n');

/** Like `describeRule`, with all that affects answers and statistics, such as names and metadata, and the place. */
export function describeRuleFully(rule: Rule): string {
  const {
    limits,
    unlimited,
    replaces,
    named,
    ids = [],
    pools = [],
    unitCost,
    chargedLater,
    countWhen,
    response,
    anyOrder,
    metadata,
    place,
  } = rule;
  const ofRule = [
    ...(unlimited ? ['unlimited: true'] : []),
    ...(replaces.length > 0 ? [`replaces: ${replaces.join(' ')}`] : []),
    ...(named === 'by_request' ? ['detailed_metric: true'] : []),
    ...(named === 'by_levels' ? ['statistics: named by requests'] : []),
    ...ids.map(({ at, as }) => `entry ${at + 1} not_counted: ${as}`),
    ...pools.map(({ at }) => `entry ${at + 1} share_threshold: true`),
    ...(unitCost ? [`unit_cost: ${showPrice(unitCost)}`] : []),
    ...(chargedLater ? ['charged_later: true'] : []),
    ...(countWhen ? [`count_when: ${countWhen.text}`] : []),
    ...(anyOrder ? [`match: any_order from entry ${anyOrder.from + 1}`] : []),
    ...(response ? [`response: ${response.contentType}`] : []),
    ...(metadata ? [`metadata: ${JSON.stringify(metadata)}`] : []),
    ...(place ? [`at: ${formatLine(place)}`] : []),
  ];
  return describeLines(rule)
    .map((line, at) => {
      const name = limits[at]?.label.name ?? '';
      return [line, ...(name === '' ? [] : [`name: ${name}`]), ...ofRule].join(', ');
    })
    .join('\n');
}

const showPrice = ({ billionths, currency }: UnitCost): string => showMoney(billionths, currency);

function describeLines(rule: Rule): readonly string[] {
  const { path, limits, shadow, quota } = rule;
  if (limits.length === 0) {
    const modes = describeModes({ shadow, quota });
    return [[`${path}: unit=UNKNOWN requests_per_unit=0`, modes, ...describeOverlaid(rule, 0)].join(', ')];
  }
  return limits.map((one, at) => {
    const { limit, label, policy } = one;
    const start = `${path}: unit=${label.unit} requests_per_unit=${limit.requestsPerUnit}`;
    const without = unlimitedTimes(rule, one).map((times) => `unlimited: { ${times} }`);
    return [start, describeModes(policy), ...more(one), ...without, ...describeOverlaid(rule, at)].join(', ');
  });
}

/** The times when the schedule of a limit says `unlimited`. */
const unlimitedTimes = ({ schedule }: Rule, own: RuleLimit): readonly string[] =>
  (schedule?.toJSON() ?? [])
    .filter((entries) => entries.at(-1)?.limit === own)
    .flatMap((entries) => entries.flatMap(({ unlimited, active }) => (unlimited && active ? [active] : [])));

/** A domain as JSON, without its rules. */
export const domainAsJson = (domain: Domain): DomainJson => ({
  name: domain.name,
  ...(domain.spend && { spend: domain.spend }),
  ...overlaidAsJson(domain, undefined),
});

/** A rule as JSON; the keys are those of rule files. */
export function ruleAsJson(rule: Rule): RuleJson {
  const { domain, path, place, unlimited, limits, schedule, shadow, quota, replaces, named, ids, pools, metadata } =
    rule;
  return {
    domain,
    path,
    ...(place && { file: place.file, ...(place.line !== undefined && { line: place.line }) }),
    ...(unlimited && { unlimited, shadow_mode: shadow, quota_mode: quota }),
    ...(replaces.length > 0 && { replaces }),
    ...(named !== 'by_rule' && { named }),
    ...(ids && { not_counted: ids.map(({ at, as }) => ({ entry: at + 1, as })) }),
    ...(pools && { share_threshold: pools.map(({ at }) => at + 1) }),
    ...(rule.unitCost && { unit_cost: showPrice(rule.unitCost) }),
    ...(rule.chargedLater && { charged_later: rule.chargedLater }),
    ...(rule.countWhen && { count_when: rule.countWhen.text }),
    ...(rule.anyOrder && { match: 'any_order' as const }),
    ...(rule.response && { response: responseAsJson(rule.response) }),
    ...(metadata && { metadata }),
    ...overlaidAsJson(rule, undefined),
    limits: limits.map((limit, at) => ({ ...limitAsJson(limit), ...overlaidAsJson(rule, at) })),
    ...(schedule && { times: schedule.toJSON().map((entries) => entries.map((one) => entryAsJson(one, limits))) }),
  };
}

const responseAsJson = ({ body, contentType, headers }: RuleResponse): NonNullable<RuleJson['response']> => ({
  content_type: contentType,
  ...(body !== undefined && { body }),
  ...(headers.length > 0 && { headers: Object.fromEntries(headers.map(({ key, value }) => [key, value])) }),
});

/** A schedule entry; its limit is given by its index in the rule's list. */
const entryAsJson = ({ limit, ...entry }: ScheduleEntry, limits: readonly RuleLimit[]): object => ({
  ...entry,
  ...(limit && { limit: limits.indexOf(limit) }),
});

/** The place of each property that an overlay set for one of the rule's limits (`undefined`: for the rule itself). */
function overlaidAsJson(rule: MayBeOverlaid, limit: number | undefined): Pick<DomainJson, 'overlaid'> {
  const places = findOverlaid(rule, limit).map(({ key, file, line }) => [key, { file, line }]);
  return places.length === 0 ? {} : { overlaid: Object.fromEntries(places) };
}

/** The limits of a rule that apply at a time, by index, and when that changes next; empty if all always apply. */
export function scheduleAsJson({ schedule, limits }: Rule, nowMs: number): Pick<ListedRule, 'schedule'> {
  if (!schedule) return {};
  const changeMs = schedule.changesAtMs(nowMs);
  const now = new Set(schedule.at(nowMs).map(({ limit }) => limit));
  return {
    schedule: {
      now: limits.flatMap(({ limit }, at) => (now.has(limit) ? [at] : [])),
      ...(changeMs < Number.POSITIVE_INFINITY && { changes_at_ms: changeMs }),
    },
  };
}

function limitAsJson({ limit, label, policy, times }: RuleLimit): LimitJson {
  const { windowMs, requestsPerUnit, soft, currency } = limit;
  const algorithm = namedAlgorithm(limit);
  const { name, unit, unitMultiplier, replicas } = label;
  const { counts, list } = algorithmFor(limit);
  const { onStoreFailure, onOverload, localShare, consistency, charge, shadow, quota, onChange, notify } = policy;
  return {
    ...(name !== '' && { name }),
    ...(times && { active: times.active.text, limit: times.of }),
    algorithm,
    ...(counts && { counts }),
    ...(unit !== 'UNKNOWN' && { unit: unit.toLowerCase(), unit_multiplier: unitMultiplier }),
    window_ms: windowMs,
    requests_per_unit: requestsPerUnit,
    ...(replicas && { per_replica: replicas.each, replicas: replicas.count }),
    ...(currency !== undefined && { budget: showMoney(requestsPerUnit, currency) }),
    soft,
    shadow_mode: shadow ?? false,
    quota_mode: quota ?? false,
    ...list(limit),
    on_store_failure: onStoreFailure ?? 'error',
    ...(isRateLimit(limit) && { on_overload: onOverload ?? 'local' }),
    ...(localShare !== undefined && { local_share: localShare }),
    consistency: consistency ?? 'strict',
    ...(charge && { charge }),
    ...(onChange && { on_change: onChange }),
    ...(notify && { notify: notify.map((percent) => `${percent}%`) }),
  };
}

const describeModes = ({
  shadow = false,
  quota = false,
}: {
  readonly shadow?: boolean;
  readonly quota?: boolean;
}): string => `shadow_mode: ${shadow}, quota_mode: ${quota}`;

/** The properties of a limit that differ from the defaults, as in rule files. */
function more({ limit, label, policy, times }: RuleLimit): readonly string[] {
  const { unit, unitMultiplier, replicas } = label;
  const { onStoreFailure, onOverload, localShare, consistency, charge, onChange, notify } = policy;
  const { windowMs, soft, requestsPerUnit, currency } = limit;
  const algorithm = namedAlgorithm(limit);
  return [
    ...(unitMultiplier === 1 ? [] : [`unit_multiplier: ${unitMultiplier}`]),
    ...(replicas ? [`per_replica: ${replicas.each}, replicas: ${replicas.count}`] : []),
    ...(unit === 'UNKNOWN' && unitOf(limit) !== 'allocated' ? [`window: ${windowMs}ms`] : []),
    ...(algorithm === DEFAULT_ALGORITHM ? [] : [`algorithm: ${algorithm}`]),
    ...algorithmFor(limit).write(limit),
    ...(currency === undefined ? [] : [`budget: ${showMoney(requestsPerUnit, currency)}`]),
    ...(soft > 0 ? [`soft: ${soft}`] : []),
    ...(onStoreFailure ? [`on_store_failure: ${onStoreFailure}`] : []),
    ...(onOverload ? [`on_overload: ${onOverload}`] : []),
    ...(charge ? [`charge: ${charge}`] : []),
    ...(consistency ? [`consistency: ${consistency}`] : []),
    ...(localShare ? [`local_share: ${localShare}`] : []),
    ...(onChange ? [`on_change: ${onChange}`] : []),
    ...(notify ? [`notify: ${notify.join('% ')}%`] : []),
    ...(times ? [`active: { ${times.active.text} }`] : []),
  ];
}

/** File and line of a rule, if it has them. */
export const placeFields = (place: Rule['place']): { readonly file?: string; readonly line?: number } => ({
  ...(place && { file: place.file }),
  ...(place?.line !== undefined && { line: place.line }),
});

/** `demo.user (rules.yaml:3)`, or with an overlay `demo.user (rules.yaml:3, overlaid: burst (overlay.yaml:7))`. */
export function describeRulePlace(rule: Pick<Rule, 'path' | 'place' | 'overlaid'>): string {
  const { path, place } = rule;
  const places = [...(place ? [formatLine(place)] : []), ...listPlaces(rule.overlaid ?? [])];
  return `${shown(path)}${places.length === 0 ? '' : ` (${places.join(', ')})`}`;
}

/** The overlaid properties of one of the rule's limits, or of the rule itself if `limit` is undefined. */
const findOverlaid = ({ overlaid = [] }: MayBeOverlaid, limit: number | undefined): readonly Overlaid[] =>
  overlaid.filter((one) => one.limit === limit);

/** The overlaid properties of a limit and its rule, as at most one text: `overlaid: burst (overlay.yaml:7)`. */
const describeOverlaid = (rule: MayBeOverlaid, limit: number): readonly string[] =>
  listPlaces([...findOverlaid(rule, limit), ...findOverlaid(rule, undefined)]);

function listPlaces(overlaid: readonly Overlaid[]): readonly string[] {
  const listed = overlaid.map(({ key, file, line }) => `${key} (${formatLine({ file, line })})`);
  return listed.length === 0 ? [] : [`overlaid: ${listed.join(', ')}`];
}
