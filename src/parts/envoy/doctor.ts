import { NearestTexts } from '../../base/nearest.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import type { Requirement } from '../../engine/rules/read/node-source.ts';
import { missingName } from '../../engine/rules/read/requirement.ts';
import type { LimitItem } from '../../lab/mapping/actions.ts';
import { examineAddresses } from './client-address.ts';
import { examineCluster, examineHealthChecks, type HostProbe } from './clusters.ts';
import { asObject, asObjects, check, type Finding, right, wrong } from './dump.ts';
import { type RouteCalls, routeCalls } from './model.ts';
import { canMatch, type DescriptorShape, expectedShapes, isShapeOf, minTtlMs, servesRequirement } from './shapes.ts';

interface EnvoyDumps {
  /** `/config_dump` of Envoy's admin interface. */
  readonly configDump: unknown;
  /** `/clusters?format=json`. */
  readonly clusters: unknown;
  /** `/stats?format=json`. */
  readonly stats: unknown;
  readonly probe: HostProbe;
}

/**
 * Compares a live Envoy with the rules, including domains, descriptors, clusters, timeouts, and the handling of
 * requests while Weir does not answer.
 */
export async function examine(
  { configDump, clusters: clusterDump, stats, probe }: EnvoyDumps,
  rules: RuleTree,
): Promise<readonly Finding[]> {
  const calls = routeCalls(configDump);
  if (calls.length === 0)
    return [wrong('Envoy has no rate limit filter, so it requests no decisions: add one with weir envoy')];
  const findings: Finding[] = [];
  const domains = unique(calls.filter(isCalling).map(({ domain }) => domain));
  for (const domain of domains.length === 0 ? unique(calls.map(({ domain: one }) => one)) : domains)
    findings.push(examineDomain(domain, rules));
  for (const { domain, filter } of unique(calls.map(({ domain: one, filter: own }) => ({ domain: one, filter: own }))))
    findings.push(...examineFilter(domain, filter, rules));
  for (const cluster of unique(calls.flatMap(({ filter }) => filter.cluster ?? []))) {
    findings.push(await examineCluster(cluster, clusterDump, probe));
    findings.push(...examineHealthChecks(cluster, configDump));
  }
  findings.push(...examineSilence(calls), ...examineCalls(calls));
  for (const domain of domains.filter((one) => rules.domains.has(one))) {
    const own = calls.filter((one) => one.domain === domain && isCalling(one));
    for (const shape of unique(own.flatMap(({ items }) => items.map((item) => item.shape))))
      if (shape.length > 0) findings.push(examineShape(shape, rules, domain));
    findings.push(...examineSlots(own, rules, domain), ...examineCommits(own, rules, domain));
    findings.push(...examineRequirements(own, rules, domain));
  }
  findings.push(...examineAddresses(configDump), ...examineUndecided(stats));
  return unique(findings);
}

/** Says how many requests got no decision, if any. */
function examineUndecided(stats: unknown): readonly Finding[] {
  const all = asObjects(asObject(stats).stats);
  const count = (what: string): number =>
    all.reduce((sum, { name, value }) => (String(name).endsWith(`.${what}`) ? sum + Number(value) : sum), 0);
  const errors = count('error');
  const text = `calls of Envoy that failed or were not answered in time: ${errors}; requests that passed without a decision: ${count('failure_mode_allowed')}; weir status, or weir doctor --target, has the reasons of the last minutes`;
  return errors === 0 ? [] : [check(text)];
}

const isCalling = ({ silence }: RouteCalls): boolean => silence === undefined;

const unique = <T>(items: readonly T[]): readonly T[] => [
  ...new Map(items.map((item) => [JSON.stringify(item), item])).values(),
];

function examineDomain(domain: string, rules: RuleTree): Finding {
  if (rules.domains.has(domain)) return right(`domain ${domain} has rules`);
  const near = new NearestTexts().find(domain, rules.domains.keys(), (name) => name, 1)[0];
  return wrong(
    `domain ${domain} has no rules: every request passes${near === undefined ? '' : `; the nearest is ${near}`}`,
  );
}

function examineFilter(domain: string, filter: RouteCalls['filter'], rules: RuleTree): readonly Finding[] {
  const { timeoutMs, onFailure, isEnforced } = filter;
  const delays = (rules.domains.has(domain) ? [...rules.rules].filter((rule) => rule.domain === domain) : []).flatMap(
    ({ limits }) => limits.flatMap(({ limit }) => ('maxDelayMs' in limit ? [limit.maxDelayMs] : [])),
  );
  const longestMs = Math.max(0, ...delays);
  const waits = Number.isFinite(timeoutMs) ? `Envoy waits ${timeoutMs} ms` : 'Envoy waits for Weir without a timeout';
  return [
    timeoutMs > longestMs
      ? right(`domain ${domain}: ${waits}, longer than the longest max_delay (${longestMs} ms)`)
      : wrong(
          `domain ${domain}: ${waits}, but Weir may hold requests for ${longestMs} ms (the longest max_delay): set the filter's timeout above that`,
        ),
    right(`domain ${domain}: ${onFailure}; if only the counters are unreachable, on_store_failure decides`),
    ...(isEnforced
      ? []
      : [
          wrong(
            `domain ${domain}: filter_enforced is 0 %: refused requests pass, with x-envoy-ratelimited: true and retry-after on their answers`,
          ),
        ]),
  ];
}

/** Maximum number of places that a finding names. */
const MAX_NAMED = 5;

function listed(calls: readonly RouteCalls[]): string {
  const places = calls.map(({ listener, place }) => `listener ${listener}, ${place}`);
  const more = places.length - MAX_NAMED;
  return places.slice(0, MAX_NAMED).join('; ') + (more > 0 ? ` and ${more} more` : '');
}

/** Groups by a text. */
function grouped<T>(items: readonly T[], textOf: (item: T) => string): ReadonlyMap<string, readonly T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) groups.set(textOf(item), [...(groups.get(textOf(item)) ?? []), item]);
  return groups;
}

/** Names the routes that never call, and filters that call for no route. */
function* examineSilence(calls: readonly RouteCalls[]): Iterable<Finding> {
  for (const [filter, own] of grouped(
    calls,
    ({ listener, filter: { domain } }) => `listener ${listener}, domain ${domain}`,
  )) {
    const isIdle = !own.some(isCalling);
    for (const [silence, places] of grouped(own, ({ silence: why }) => why ?? '')) {
      if (silence === '') continue;
      if (isIdle) yield wrong(`${filter}: Envoy requests no decisions: ${silence}`);
      else if (places.some(({ isSwitchedOff }) => isSwitchedOff)) yield check(`no call: ${silence}: ${listed(places)}`);
      else yield right(`no call: ${silence}: ${listed(places)}`);
    }
  }
}

/** Says which descriptors routes send, and which of them have no effect. */
function* examineCalls(calls: readonly RouteCalls[]): Iterable<Finding> {
  const text = (one: RouteCalls): string => {
    const late = one.items.filter(({ isLate }) => isLate).map((item) => itemText(item, one));
    const early = one.items.filter(({ isLate }) => !isLate).map((item) => itemText(item, one));
    const parts = [
      ...(early.length > 0 ? [early.join('; ')] : []),
      ...late.map((item) => `${item} when the stream ends`),
    ];
    return `calls with ${parts.join('; ')} in domain ${one.domain}`;
  };
  for (const [said, own] of grouped(calls.filter(isCalling), text)) yield right(`${listed(own)}: ${said}`);
  for (const [problem, own] of grouped(
    calls.filter(isCalling).flatMap((one) => problemsOf(one).map((found) => ({ found, one }))),
    ({ found }) => JSON.stringify(found),
  )) {
    const { verdict, text: what } = JSON.parse(problem) as Finding; // of the line above
    yield { verdict, text: `${what}: ${listed(own.map(({ one }) => one))}` };
  }
}

function itemText({ shape, hits, isNegative }: LimitItem, { ownHits }: RouteCalls): string {
  const count = hits === undefined || !ownHits ? '' : ` (${isNegative ? '-' : ''}${hits} hits)`;
  return shapeText(shape) + count;
}

const shapeText = (shape: DescriptorShape): string =>
  shape.map(({ key, value }) => (value === undefined ? key : `${key}=${value}`)).join(',');

/** What is wrong with the items of a route, without the rules. */
function problemsOf(calls: RouteCalls): readonly Finding[] {
  const { items, ownHits } = calls;
  const early = items.filter(({ isLate }) => !isLate);
  const twice = early.filter(
    (one, at) => early.findIndex((other) => isRepeated(one, other)) < at && (one.isUnconditional || hasNoMatcher(one)),
  );
  return [
    ...items
      .filter(({ hits }) => hits !== undefined && !ownHits)
      .map((item) =>
        wrong(
          `Envoy ignores hits_addend of ${shapeText(item.shape)}, as it is in rate_limits of a route or virtual host: move the list to RateLimitPerRoute in typed_per_filter_config`,
        ),
      ),
    ...twice.map(({ shape }) => wrong(`${shapeText(shape)} is sent twice, so each request counts twice`)),
    ...items
      .filter(({ hasExactPath }) => hasExactPath)
      .map(({ shape }) => check(`${shapeText(shape)} matches a path exactly: requests with a query are not counted`)),
    ...items
      .filter(({ disableKey }) => disableKey !== undefined)
      .map(({ shape, disableKey }) =>
        check(`${shapeText(shape)} is not sent if ratelimit.${disableKey}.http_filter_enabled is 0 in Envoy's runtime`),
      ),
    ...(ownHits ? items.flatMap(formatProblem) : []),
    ...items.filter(({ isLate }) => isLate).flatMap((item) => changeProblem(item, calls)),
  ];
}

const isRepeated = (one: LimitItem, other: LimitItem): boolean =>
  shapeText(one.shape) === shapeText(other.shape) && one.headers.join() === other.headers.join();

const hasNoMatcher = ({ shape }: LimitItem): boolean => shape.every(({ value }) => value === undefined);

/** Formats that always are a number of hits. */
const SAFE_FORMAT = /^%(RESPONSE_CODE|RESPONSE_DURATION|DURATION|ATTEMPT_COUNT)%$/;

function formatProblem({ hits, shape }: LimitItem): readonly Finding[] {
  if (hits === undefined || !hits.startsWith('%') || SAFE_FORMAT.test(hits)) return [];
  return [check(`a request is not counted by ${shapeText(shape)} if ${hits} is no number from 0 to 1,000,000,000`)];
}

/** Reports a late descriptor that is read from what the route has changed. */
function changeProblem({ headers, shape, isNegative }: LimitItem, calls: RouteCalls): readonly Finding[] {
  return headers.flatMap((name) => {
    const change = calls.changeOf(name);
    const fix = 'save it in the filter state before the route changes it, as weir envoy does';
    if (change === 'removed')
      return [
        wrong(`Envoy does not send ${shapeText(shape)} when the stream ends, as the route removes ${name}: ${fix}`),
      ];
    if (change === undefined) return [];
    const text = `${shapeText(shape)} has another value when the stream ends, as the route changes ${name}: ${fix}`;
    return [isNegative ? wrong(text) : check(text)];
  });
}

function examineShape(shape: DescriptorShape, rules: RuleTree, domain: string): Finding {
  const text = `domain ${domain}: ${shapeText(shape)}`;
  if (canMatch(rules, domain, shape)) return right(`${text} can match a rule`);
  if (servesRequirement(rules, domain, shape)) return right(`${text} matches no rule, but require needs it`);
  return wrong(`${text} matches no rule${hint(rules, domain, shape)}`);
}

function hint(rules: RuleTree, domain: string, shape: DescriptorShape): string {
  const [first] = shape;
  const keys = rules.domains.get(domain)?.root.byKey.keys() ?? [];
  const near = first && new NearestTexts().find(first.key, keys, (key) => key, 1)[0];
  return near === undefined || near === first?.key ? '' : `; the nearest key is ${near}`;
}

/** Checks that requests without required keys cause calls as well. */
function examineRequirements(calls: readonly RouteCalls[], rules: RuleTree, domain: string): readonly Finding[] {
  const { requirements = [] } = rules.domains.get(domain) ?? {};
  if (requirements.length === 0 || calls.length === 0) return [];
  const silent = calls.filter(({ items }) => !items.some((item) => item.isUnconditional && !item.isLate)).length;
  if (silent === 0) return [right(`domain ${domain}: every request has a descriptor, so require takes effect`)];
  const [{ keys }] = requirements as [Requirement]; // not empty
  const which = calls.length === 1 ? 'rate_limits' : `${silent} of ${calls.length} rate_limits`;
  return [
    wrong(
      `domain ${domain}: ${which} may send no descriptor for a request, and Envoy then does not call Weir, though the rules require ${missingName({ keys })}: add - actions: [{ generic_key: { descriptor_value: every_request } }]`,
    ),
  ];
}

/** Whether a route sends a descriptor of this shape, as the request has begun or with the same values at its end. */
const sends = (calls: RouteCalls, shape: DescriptorShape, isLate: boolean, isNegative = false): boolean =>
  calls.items.some(
    (item) =>
      item.isLate === isLate &&
      isShapeOf(shape, item.shape) &&
      (!isNegative || (item.isNegative && calls.ownHits)) &&
      (!isLate || item.headers.every((name) => calls.changeOf(name) === undefined)),
  );

/** Checks that slots are released, and last longer than requests. */
function examineSlots(calls: readonly RouteCalls[], rules: RuleTree, domain: string): readonly Finding[] {
  const ttlMs = minTtlMs(rules, domain);
  if (ttlMs === undefined) return [];
  const { slots } = expectedShapes(rules, domain);
  const takers = calls.filter((one) => slots.some((shape) => sends(one, shape, false)));
  const longest = Math.max(0, ...takers.map(({ timeoutMs }) => timeoutMs));
  if (takers.length === 0)
    return slots.map((shape) => check(`domain ${domain}: no route sends ${shapeText(shape)}, which takes slots`));
  return [
    longest < ttlMs
      ? right(`domain ${domain}: routes time out after at most ${longest} ms, slots expire after ${ttlMs} ms (ttl)`)
      : wrong(
          `domain ${domain}: a route ${Number.isFinite(longest) ? `times out after ${longest} ms` : 'has no timeout'}, but a slot expires after ${ttlMs} ms (ttl): a longer request runs without a slot`,
        ),
    ...slots.map((shape) => {
      const own = takers.filter((one) => sends(one, shape, false));
      const missing = own.filter((one) => !sends(one, shape, true, true));
      const ends = `sends ${shapeText(shape)} when streams end (apply_on_stream_done with is_negative_hits in RateLimitPerRoute)`;
      if (missing.length === 0)
        return right(`domain ${domain}: slots of ${shapeText(shape)} are released by ${listed(own)}`);
      if (missing.length === own.length)
        return wrong(`domain ${domain}: no route ${ends}: slots are released only after ${ttlMs} ms (ttl)`);
      return wrong(
        `domain ${domain}: slots of ${shapeText(shape)} are released only after ${ttlMs} ms (ttl), as none of these ${ends}: ${listed(missing)}`,
      );
    }),
  ];
}

/** Checks that the usage of requests is reported, by any of the descriptors that can do so. */
function examineCommits(calls: readonly RouteCalls[], rules: RuleTree, domain: string): readonly Finding[] {
  const { commits } = expectedShapes(rules, domain);
  return [...grouped(commits, (shape) => shapeText(shape.slice(0, -1)))].flatMap(([reserved, ends]) => {
    const [[...first] = []] = ends;
    const takers = calls.filter((one) => sends(one, first.slice(0, -1), false));
    const missing = takers.filter((one) => !ends.some((shape) => sends(one, shape, true)));
    const names = ends.map(shapeText).join(' or ');
    if (takers.length === 0) return [];
    if (missing.length === 0)
      return [right(`domain ${domain}: reservations of ${reserved} are committed by ${listed(takers)}`)];
    return [
      wrong(
        `domain ${domain}: reservations of ${reserved} are never committed, as none of these sends ${names} when streams end (apply_on_stream_done): ${listed(missing)}`,
      ),
    ];
  });
}
