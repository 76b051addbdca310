import { groupBy } from '../../base/group.ts';
import { counted } from '../../base/texts.ts';
import type { Entry } from '../../engine/rules/match/match.ts';
import { formatLine } from '../../engine/rules/read/problem.ts';
import type { FindingKind } from './answers.ts';
import { type CardinalityJump, SAMPLE } from './cardinality.ts';
import {
  type BoundedCalls,
  type EmptyCalls,
  type EvidenceReport,
  type LapsedCounter,
  nameIn,
  type PairedCalls,
  type ProxyTraffic,
  pairCounts,
  type RefusedChildren,
  type UndecidedCalls,
} from './evidence.ts';
import { type NamedProxy, UNKNOWN_PROXY } from './proxies.ts';
import { type Slots, sum } from './slots.ts';

/** A likely mistake in the configuration of a proxy, as one judgement sees it. */
export interface Judged extends NamedProxy {
  readonly kind: FindingKind;
  /** Identifies the finding in later judgements. */
  readonly id: string;
  readonly sinceMs: number;
  readonly domain?: string;
  readonly rule?: string;
  /** Without values of callers. */
  readonly problem: string;
  /** The likely line of configuration. */
  readonly configuration: string;
  readonly example: readonly Entry[];
}

/** Complete slots of this age and older have checks whose charges are due, 20 seconds later or more. */
const DUE = 3;

/** What is needed before anything is said. */
const MIN_EMPTY_CALLS = 3;
const MIN_CHECKS = 20;
const MIN_IDLE_RELEASES = 10;
const MIN_REQUESTS = 100;
const MIN_VALUES = 50;
/** Different values in a sample of the key by which a limit is shared. */
const MIN_CHILDREN = (3 * SAMPLE) / 4;
const MIN_LAPSES = 3;
const MIN_LAPSED_PART = 0.1;
/** The part of the requests with a descriptor that another proxy never sends. */
const MIN_PART = 0.2;

/**
 * Judges what all processes have seen together: the connections of one proxy may reach different ones. Several jumps
 * may be the same finding.
 */
export function judge(reports: readonly EvidenceReport[], nowMs: number): readonly Judged[] {
  const pairs = reports.flatMap((report) => report.pairs);
  const byRule = groupBy(pairs, ({ rule }) => rule);
  const rules = Array.from(byRule.values(), (ofRule) => [...groupBy(ofRule, ({ by }) => by.proxy).values()].map(addUp));
  const traffic = perProxy(reports.flatMap((report) => report.traffic)).map(addTraffic);
  const calls = perProxy(reports.flatMap((report) => report.calls)).map((all) => addCalls(all));
  const undecided = groupBy(
    reports.flatMap((report) => report.undecided),
    undecidedId,
  );
  const lapsed = reports.flatMap((report) => report.lapsed);
  const committed = new Set(reports.flatMap((report) => report.committed));
  const examples = new Map(reports.flatMap((report) => [...report.examples]));
  return [
    ...calls.flatMap(judgeCalls),
    ...Array.from(undecided.values(), (all) => judgeUndecided(addCalls(all))),
    ...rules.flatMap((ofRule) => judgeChecks(ofRule, committed)),
    ...rules.flatMap(judgeReleases),
    ...[...groupBy(traffic, ({ domain }) => domain).values()].flatMap((ofDomain) =>
      judgeShapes(ofDomain, { nowMs, examples }),
    ),
    ...traffic.flatMap(judgeValues),
    ...reports.flatMap((report) => report.jumps).map(judgeJump),
    ...reports.flatMap((report) => report.bounded).map(judgeBounded),
    ...reports.flatMap((report) => report.children).flatMap(judgeChildren),
    ...[...groupBy(lapsed, ({ key }) => key).values()].flatMap(judgeLapsed),
  ];
}

function judgeCalls({ domain, by, calls, sinceMs, hits }: EmptyCalls): readonly Judged[] {
  const count = sum(calls);
  if (count < MIN_EMPTY_CALLS) return [];
  return [
    {
      kind: 'call_without_descriptors',
      id: nameIn(domain, by.proxy),
      sinceMs,
      domain,
      ...by,
      problem: `${count} calls of ${by.proxy} in domain '${domain}' in the last minute had no descriptors (the last with hits_addend ${hits}): they were refused as invalid, and nothing was counted`,
      configuration:
        'descriptors of remoteRateLimit (agentgateway) or actions in rate_limits (Envoy), whose expressions have no value when the call is made',
      example: [],
    },
  ];
}

const undecidedId = ({ reason, by }: UndecidedCalls): string => nameIn(reason, by.proxy);

const TIMEOUT = 'timeout of its rate limit filter (20 ms by default)';
const INSTANCES = 'whether it calls enough instances: this one needs more processor time, or WORKERS';

/** What to change, by the reason. */
const remedies: Readonly<Record<UndecidedCalls['reason'], string>> = {
  store: `${TIMEOUT} against the time of the store; on_store_failure in the rules decides in its place`,
  overload: INSTANCES,
  late: `${TIMEOUT}, and ${INSTANCES}`,
  cancelled: TIMEOUT,
  in_flight: 'whether its calls have a deadline',
  other: 'its domain and descriptors; the log has the reason',
};

function judgeUndecided(one: UndecidedCalls): Judged {
  const { reason, by, calls, sinceMs } = one;
  return {
    kind: 'undecided',
    id: undecidedId(one),
    sinceMs,
    ...by,
    problem: `${counted(sum(calls), 'request')} of ${by.proxy} in the last minute got no decision (${reason}), and passed unless it fails closed`,
    configuration: remedies[reason],
    example: [],
  };
}

/** Finds proxies that send checks for a rule, but no charges. */
function judgeChecks(ofRule: readonly PairedCalls[], committed: ReadonlySet<string>): readonly Judged[] {
  const all = ofRule.map((pair) => ({ pair, ...splitChecks(pair) }));
  const isElsewhere = all.some(({ checks, charges }) => sum(checks) === 0 && sum(charges) > 0);
  return all.flatMap(({ pair, checks, charges }): readonly Judged[] => {
    const { by, example, unchargedSinceMs: sinceMs } = pair;
    const count = countUncharged(checks, charges);
    if (count < MIN_CHECKS || sinceMs === undefined || isElsewhere || committed.has(pair.domain)) return [];
    return [
      {
        ...aboutRule(pair),
        ...by,
        kind: 'check_without_charge',
        id: nameIn(pair.rule, by.proxy),
        sinceMs,
        problem: `${count} checks of ${shownRule(pair)} by ${by.proxy} were not followed by a charge within 20 seconds: what its requests use is not counted`,
        configuration: `rate_limits of Envoy: an entry with apply_on_stream_done: true and hits_addend for ${listKeys(example)}; remoteRateLimit of agentgateway: type: tokens and cost`,
      },
    ];
  });
}

/** Requests of one hit are checks, unless others count nothing: then they are charges. */
function splitChecks({ looks, ones, charges }: PairedCalls) {
  const isLooking = sum(looks) > 0;
  return { checks: isLooking ? looks : ones, charges: isLooking ? plus(ones, charges) : charges };
}

/** Due checks of the longest time in which nothing was charged. */
function countUncharged(checks: Slots, charges: Slots): number {
  let to = DUE + 1;
  if (checks[DUE] === 0 || sum(charges, 0, to) > 0) return 0;
  while (to < checks.length && charges[to] === 0) to++;
  return sum(checks, DUE, to);
}

/** Finds rules whose slots are released more often than they were taken, and the proxy that does so most. */
function judgeReleases(ofRule: readonly PairedCalls[]): readonly Judged[] {
  const count = (of: 'idle' | 'refused'): number => ofRule.reduce((total, pair) => total + sum(pair[of]), 0);
  const [most] = ofRule.toSorted((one, other) => sum(other.idle) - sum(one.idle));
  if (most?.idleSinceMs === undefined || count('idle') < count('refused') + MIN_IDLE_RELEASES) return [];
  const { by, example, idleSinceMs, releases, idle } = most;
  return [
    {
      ...aboutRule(most),
      ...by,
      kind: 'release_without_acquire',
      id: most.rule,
      sinceMs: idleSinceMs,
      problem: `${sum(idle)} of ${sum(releases)} releases of ${shownRule(most)} by ${by.proxy} in the last minute freed no slot: its requests acquire none, acquire under another id, or outlive the ttl`,
      configuration: `rate_limits of Envoy: an entry without apply_on_stream_done for ${listKeys(example)}, with the same header as id`,
    },
  ];
}

interface Circumstances {
  readonly nowMs: number;
  readonly examples: EvidenceReport['examples'];
}

/** Finds descriptors that most proxies of a domain send, and that others never do. */
function judgeShapes(ofDomain: readonly ProxyTraffic[], { nowMs, examples }: Circumstances): readonly Judged[] {
  const busy = ofDomain.filter(({ requests }) => requests >= MIN_REQUESTS);
  const measurePart = ({ shapes, requests }: ProxyTraffic, name: string): number => (shapes.get(name) ?? 0) / requests;
  const names = new Set(busy.flatMap(({ shapes }) => [...shapes.keys()]));
  return [...names].flatMap((name) => {
    const senders = busy.filter((one) => measurePart(one, name) >= MIN_PART);
    const others = busy.filter((one) => measurePart(one, name) === 0 && hasCommon(one, senders));
    const [sender] = senders;
    if (!sender || others.length > senders.length) return [];
    const percent = Math.round(100 * measurePart(sender, name));
    return others.map(
      ({ domain, by }): Judged => ({
        kind: 'descriptor_missing_at_proxy',
        id: `${nameIn(domain, name)} ${by.proxy}`,
        sinceMs: nowMs,
        domain,
        ...by,
        problem: `${by.proxy} never sends the descriptor (${name}) in domain '${domain}', which ${sender.by.proxy} sends with ${percent} % of its requests`,
        configuration: `actions of that proxy for ${name}: one that finds no value drops the whole descriptor`,
        example: examples.get(nameIn(domain, name)) ?? [],
      }),
    );
  });
}

/** Whether a proxy sends a descriptor that one of the others sends, too: unlike proxies are not compared. */
const hasCommon = ({ shapes }: ProxyTraffic, others: readonly ProxyTraffic[]): boolean =>
  others.some((other) => [...other.shapes].some(([name, requests]) => requests > 0 && shapes.get(name)));

function judgeValues({ domain, by, keys }: ProxyTraffic): readonly Judged[] {
  return [...keys].flatMap(([key, { values, placeholders, placeholder = '', sinceMs }]) => {
    if (values < MIN_VALUES || placeholders < values || sinceMs === undefined) return [];
    return {
      kind: 'placeholder_values',
      id: `${nameIn(domain, key)} ${by.proxy}`,
      sinceMs,
      domain,
      ...by,
      problem: `every value of key '${key}' in domain '${domain}' by ${by.proxy} was a placeholder, the last one '${placeholder}': all its clients share one counter`,
      configuration: `the action with descriptor_key: ${key}: its header_name, metadata_key or default_value`,
      example: [{ key, value: placeholder }],
    };
  });
}

const judgeJump = ({ domain, key, by, example, sinceMs, before, now }: CardinalityJump): Judged => ({
  kind: 'cardinality_jump',
  id: nameIn(domain, key),
  sinceMs,
  domain,
  ...by,
  problem: `key '${key}' in domain '${domain}' has ${now} different values in ${SAMPLE} requests, before ${before}; ${by.proxy} sent the last new one: each has a counter of its own`,
  configuration: `the action with descriptor_key: ${key}: whether its value still names a client, and not a request`,
  example: [{ key, value: example }],
});

/** Several processes may have the same finding. */
const judgeBounded = (one: BoundedCalls): Judged => ({
  ...aboutRule(one),
  kind: 'hits_beyond_bound',
  id: one.rule,
  sinceMs: one.sinceMs,
  problem: `requests of ${shownRule(one)} charged or gave back more than 100 times the limit at once: of ${one.hits}, the last time, ${one.counted} were counted`,
  configuration: `hits_addend in rate_limits of Envoy, or cost of agentgateway, for ${listKeys(one.example)}: whether a client or an upstream can choose the value that it is read from`,
});

/** Finds limits that refuse calls while most calls are of different children, each of which is served from the spare part. */
function judgeChildren(one: RefusedChildren): readonly Judged[] {
  const { rule, key, values, sinceMs } = one;
  if (values < MIN_CHILDREN) return [];
  return [
    {
      ...aboutRule(one),
      kind: 'many_new_children',
      id: nameIn(rule, key),
      sinceMs,
      problem: `${shownRule(one)} refuses calls while ${values} of ${SAMPLE} values of its key '${key}' are different: each has a share, so a caller that chooses the value takes those of others`,
      configuration: `the action with descriptor_key: ${key}: whether a client can choose its value; a reserve for known values, or share: { spare: 0% }`,
    },
  ];
}

/** What several processes have seen of one counter. A client that breaks off now and then is no mistake. */
function judgeLapsed(all: readonly LapsedCounter[]): readonly Judged[] {
  const count = (of: 'hits' | 'lapses' | 'made'): number => all.reduce((total, one) => total + sum(one[of]), 0);
  const lapses = count('lapses');
  const [first] = all;
  if (!first || lapses < MIN_LAPSES || lapses < MIN_LAPSED_PART * count('made')) return [];
  const { isCharged, example } = first;
  return [
    {
      ...aboutRule(first),
      kind: 'reservations_lapsed',
      id: first.key,
      sinceMs: Math.min(...all.map(({ sinceMs }) => sinceMs)),
      problem: `${lapses} of ${count('made')} reservations of one key of ${shownRule(first)} were not committed within their ttl in the last minute: ${count('hits')} hits ${isCharged ? 'stay charged as they were reserved, whatever was used' : 'were freed, and what was used is not charged'}`,
      configuration: `the entry of rate_limits of Envoy with apply_on_stream_done for ${listKeys(example)}: whether Envoy finds the usage in each kind of answer, and whether clients break off before it arrives`,
    },
  ];
}

/** What a finding about a rule has; the proxy may be known. */
const aboutRule = ({ domain, rule, example }: Pick<PairedCalls, 'domain' | 'rule' | 'example'>) => ({
  domain,
  rule,
  example,
  proxy: UNKNOWN_PROXY,
});

const listKeys = (example: readonly Entry[]): string => example.map(({ key }) => key).join(',');

const shownRule = ({ rule, place }: Pick<PairedCalls, 'rule' | 'place'>): string =>
  `rule '${rule}'${place ? ` (${formatLine(place)})` : ''}`;

const plus = (one: Slots, other: Slots): Slots => one.map((count, at) => count + (other[at] ?? 0));

/** What was seen of each proxy in each domain. */
const perProxy = <T extends { readonly domain: string; readonly by: NamedProxy }>(
  all: readonly T[],
): readonly (readonly T[])[] => [...groupBy(all, ({ domain, by }) => nameIn(domain, by.proxy)).values()];

const addCalls = <T extends Pick<EmptyCalls, 'calls' | 'sinceMs'>>(all: readonly T[]): T =>
  all.reduce((one, other) => ({
    ...other,
    calls: plus(one.calls, other.calls),
    sinceMs: Math.min(one.sinceMs, other.sinceMs),
  }));

const addTraffic = (all: readonly ProxyTraffic[]): ProxyTraffic =>
  all.reduce((one, other) => ({
    ...other,
    requests: one.requests + other.requests,
    shapes: merged(one.shapes, other.shapes, (count, more) => count + more),
    keys: merged(one.keys, other.keys, (key, more) => ({
      values: key.values + more.values,
      placeholders: key.placeholders + more.placeholders,
      placeholder: more.placeholder ?? key.placeholder,
      sinceMs: Math.min(key.sinceMs ?? more.sinceMs ?? 0, more.sinceMs ?? key.sinceMs ?? 0) || undefined,
    })),
  }));

function merged<T>(
  one: ReadonlyMap<string, T>,
  other: ReadonlyMap<string, T>,
  add: (known: T, more: T) => T,
): ReadonlyMap<string, T> {
  const all = new Map(one);
  for (const [name, more] of other) {
    const known = all.get(name);
    all.set(name, known === undefined ? more : add(known, more));
  }
  return all;
}

/** What several processes have seen of one rule and one proxy. */
const addUp = (all: readonly PairedCalls[]): PairedCalls =>
  all.reduce((one, other) => ({
    ...other,
    ...Object.fromEntries(pairCounts.map((name) => [name, plus(one[name], other[name])])),
    unchargedSinceMs:
      one.unchargedSinceMs && other.unchargedSinceMs && Math.min(one.unchargedSinceMs, other.unchargedSinceMs),
    idleSinceMs: one.idleSinceMs ?? other.idleSinceMs,
  }));
