import { groupBy } from '../../base/group.ts';
import { NearestTexts } from '../../base/nearest.ts';
import { count } from '../../base/texts.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import type { Requirement } from '../../engine/rules/read/node-source.ts';
import { missingName } from '../../engine/rules/read/requirement.ts';
import type { LimitItem } from '../lab/mapping/actions.ts';
import { examineAddresses } from './client-address.ts';
import { examineCluster, examineHealthChecks, type HostProbe } from './clusters.ts';
import { check, type Finding, listedTexts, right, wrong } from './dump.ts';
import { type RouteCalls, routeCalls } from './model.ts';
import {
  canMatch,
  type DescriptorShape,
  expectedShapes,
  isShapeOf,
  longestDelayMs,
  minTtlMs,
  servesRequirement,
} from './shapes.ts';
import { examineStats } from './stats.ts';

interface EnvoyDumps {
  /** `/config_dump` of Envoy's admin interface. */
  readonly configDump: unknown;
  /** `/clusters?format=json`. */
  readonly clusters: unknown;
  readonly probe: HostProbe;
  /** `STATS_PAGE`; absent: not examined. */
  readonly stats?: unknown;
}

/** Compares a live Envoy with the rules: domains, descriptors, clusters, timeouts, and what it does without Weir. */
export async function examine(
  { configDump, clusters: clusterDump, probe, stats }: EnvoyDumps,
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
  findings.push(...examineAddresses(configDump));
  if (stats !== undefined)
    findings.push(...examineStats(stats, unique(calls.flatMap(({ filter }) => filter.cluster ?? []))));
  return unique(findings);
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
  const longestMs = longestDelayMs([...rules.rules].filter((rule) => rule.domain === domain));
  const waits = Number.isFinite(timeoutMs)
    ? `Envoy waits ${count(timeoutMs)} ms`
    : 'Envoy waits for Weir without a timeout';
  return [
    timeoutMs > longestMs
      ? right(`domain ${domain}: ${waits}, longer than the longest max_delay (${count(longestMs)} ms)`)
      : wrong(
          `domain ${domain}: ${waits}, but Weir may hold requests for ${count(longestMs)} ms (the longest max_delay): set the filter's timeout above that`,
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

const listed = (calls: readonly RouteCalls[]): string =>
  listedTexts([...new Set(calls.map(({ listener, place }) => `listener ${listener}, ${place}`))], '; ');

/** Names the routes that never call, and filters that call for no route. */
function* examineSilence(calls: readonly RouteCalls[]): Iterable<Finding> {
  for (const [filter, own] of groupBy(
    calls,
    ({ listener, filter: { domain } }) => `listener ${listener}, domain ${domain}`,
  )) {
    const isIdle = !own.some(isCalling);
    for (const [silence, places] of groupBy(own, ({ silence: why }) => why ?? '')) {
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
  for (const [said, own] of groupBy(calls.filter(isCalling), text)) yield right(`${listed(own)}: ${said}`);
  for (const [problem, own] of groupBy(
    calls.filter(isCalling).flatMap((one) => problemsOf(one).map((found) => ({ found, one }))),
    ({ found }) => JSON.stringify(found),
  )) {
    const { verdict, text: what } = JSON.parse(problem) as Finding; // of the line above
    yield { verdict, text: `${what}: ${listed(own.map(({ one }) => one))}` };
  }
}

function itemText({ shape, hits, isNegative }: LimitItem, { ownHits }: RouteCalls): string {
  const count =
    hits === undefined || !ownHits ? '' : ` (${isNegative ? '-' : ''}${hits} ${hits === '1' ? 'hit' : 'hits'})`;
  return shapeText(shape) + count;
}

const shapeText = (shape: DescriptorShape): string =>
  shape.map(({ key, value }) => (value === undefined ? key : `${key}=${value}`)).join(',');

/** What is wrong with the items of a route, without the rules. */
function problemsOf(calls: RouteCalls): readonly Finding[] {
  const { items, ownHits } = calls;
  const early = items.filter(({ isLate }) => !isLate);
  const twice = early.filter(({ actions }, at) => early.findIndex((other) => other.actions === actions) < at);
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
      ? right(
          `domain ${domain}: routes time out after at most ${count(longest)} ms, slots expire after ${count(ttlMs)} ms (ttl)`,
        )
      : wrong(
          `domain ${domain}: a route ${Number.isFinite(longest) ? `times out after ${count(longest)} ms` : 'has no timeout'}, but a slot expires after ${count(ttlMs)} ms (ttl): a longer request runs without a slot`,
        ),
    ...slots.map((shape) => {
      const own = takers.filter((one) => sends(one, shape, false));
      const missing = own.filter((one) => !sends(one, shape, true, true));
      const ends = `sends ${shapeText(shape)} when streams end (apply_on_stream_done with is_negative_hits in RateLimitPerRoute)`;
      if (missing.length === 0)
        return right(`domain ${domain}: slots of ${shapeText(shape)} are released by ${listed(own)}`);
      if (missing.length === own.length)
        return wrong(`domain ${domain}: no route ${ends}: slots are released only after ${count(ttlMs)} ms (ttl)`);
      return wrong(
        `domain ${domain}: slots of ${shapeText(shape)} are released only after ${count(ttlMs)} ms (ttl), as none of these ${ends}: ${listed(missing)}`,
      );
    }),
  ];
}

/** Checks that the usage of requests is reported, by any of the descriptors that can do so. */
function examineCommits(calls: readonly RouteCalls[], rules: RuleTree, domain: string): readonly Finding[] {
  const { commits } = expectedShapes(rules, domain);
  return [...groupBy(commits, (shape) => shapeText(shape.slice(0, -1)))].flatMap(([reserved, ends]) => {
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
