import { groupBy, present } from '../../base/group.ts';
import { type Spend, unitMs } from '../../engine/algorithms/limit.ts';
import { algorithmsWith, unitOfNamed } from '../../engine/holds/limits.ts';
import { Addresses } from '../../engine/rules/match/addresses.ts';
import { BlockTable } from '../../engine/rules/match/block-table.ts';
import type { Matcher } from '../../engine/rules/match/matcher.ts';
import { isFixed, textMatcher, valueMatcher } from '../../engine/rules/match/matchers.ts';
import { addressBlockProblem, addressBlockText } from '../../engine/rules/read/address-block.ts';
import type { Block } from '../../engine/rules/read/block.ts';
import { limitKeysWith, reserving } from '../../engine/rules/read/format.ts';
import { compositeName, listLimits } from '../../engine/rules/read/node-source.ts';
import { formatLine, type Place, type Problem, problemAt, shown } from '../../engine/rules/read/problem.ts';

/**
 * Finds probable mistakes in valid rule files: limits that are 0 by omission, nodes that nothing reaches, keys and
 * names without effect. All are warnings: envoyproxy/ratelimit accepts such files silently.
 *
 * @param files  valid files; those of one domain are merged in this order
 * @param spend  for domains that do not set it
 */
export function lint(files: readonly Block<'file'>[], spend: Spend = 'each'): readonly Problem[] {
  const domains = groupBy(files, ({ values: { domain = '' } }) => domain);
  return [...domains].flatMap(([domain, parts]) => lintDomain(shown(domain), parts, spend));
}

/** @param domain  printable, for messages */
function lintDomain(domain: string, files: readonly Block<'file'>[], byDefault: Spend): readonly Problem[] {
  const spend = files.find(({ values }) => values.spend !== undefined)?.values.spend ?? byDefault;
  const top = files.flatMap(({ values: { descriptors = [] } }) => descriptors);
  const levels = walkLevels(top);
  const nodes = levels.flat();
  const limits = nodes.flatMap(listLimits);
  const names = new Set(limits.flatMap(({ values }) => (values.unlimited ? [] : (values.name ?? []))));
  const isUnlimited = top.length > 0 && limits.length === 0;
  return present([
    ...files.map(
      ({ values: { descriptors = [] }, place }) =>
        descriptors.length === 0 && warning(place('descriptors'), 'the file has no descriptors and limits nothing'),
    ),
    isUnlimited && files[0] && warning(files[0].place('domain'), `'${domain}' has no rate_limit anywhere`),
    ...levels.flatMap(lintLevel),
    ...nodes.flatMap(lintNode),
    ...lintHolds(top, false),
    ...lintReserve(nodes, spend),
    ...limits.flatMap((limit) => [...lintLimit(limit, domain, names), ...lintNumbers(limit, spend)]),
  ]);
}

function walkLevels(level: readonly Block<'node'>[]): readonly (readonly Block<'node'>[])[] {
  return [level, ...level.flatMap(({ values: { descriptors } }) => (descriptors ? walkLevels(descriptors) : []))];
}

const lintLevel = (level: readonly Block<'node'>[]): readonly Problem[] => [
  ...lintHidden(level),
  ...lintBlocks(level),
  ...lintOpenLeaves(level),
];

/** Warns of blocks of addresses that have no effect, since others of the same key contain or divide them. */
function lintBlocks(level: readonly Block<'node'>[]): readonly Problem[] {
  const tables = new Map<string, BlockTable<Block<'node'>>>();
  const named = level.flatMap((node) => {
    const { key = '', addresses } = node.values;
    if (!addresses) return [];
    const table = tables.get(key) ?? new BlockTable();
    tables.set(key, table);
    const { blocks } = new Addresses(addresses);
    return blocks.map((block) => ({ node, table, block, isTwice: table.set(block, node) !== undefined }));
  });
  return named.flatMap(({ node, table, block, isTwice }) => {
    const warn = (why: string): Problem => warning(node.place('addresses'), `${addressBlockText(block)} ${why}`);
    if (isTwice) return warn('is listed twice');
    if (table.isCovered(block)) return warn('is unreachable: longer blocks contain all of its addresses');
    return table.findWider(block) === node ? warn('has no effect: a wider block in the same list contains it') : [];
  });
}

/** Warns of leaves without a limit, where requests pass: each is an exemption, or a limit was forgotten. */
function lintOpenLeaves(level: readonly Block<'node'>[]): readonly Problem[] {
  const isBesideLimited = level.some((node) => listLimits(node).length > 0);
  return level.flatMap((node) => {
    const { values, empty, place } = node;
    if (empty?.has('rate_limit')) return warning(place('rate_limit'), `rate_limit is empty: ${NOT_LIMITED}`);
    const isLeaf = listLimits(node).length === 0 && (values.descriptors ?? []).length === 0;
    const isOpen = isLeaf && values.not_counted !== 'commit' && !values.share && !values.blocked_by;
    return isOpen && isBesideLimited && lintNode(node).length === 0 ? warning(place(), NOT_LIMITED) : [];
  });
}

const NOT_LIMITED =
  'descriptors that end here are not limited; if this is intended, write rate_limit: { unlimited: true }';

function lintHidden(level: readonly Block<'node'>[]): readonly Problem[] {
  return findHidden(level).map(({ node, by }) => {
    const [before, behind] = [shown(compositeName(by.values)), shown(compositeName(node.values))];
    const advice = isFixed(compositeName(node.values)) ? 'remove one of them' : 'put this one before it, or remove it';
    const why = `'${before}' (${formatLine(by.place())}) matches everything that '${behind}' matches, and takes precedence`;
    return warning(node.place(), `unreachable: ${why}; ${advice}`);
  });
}

const COUNTS_REFUSALS =
  'count_when includes 429, with which proxies refuse requests: each refusal of this limit is counted as well; list the other statuses';

/** Keys of a node that only affect its own limit. */
const keysOfLimited = ['shadow_mode', 'quota_mode', 'charged_later', 'detailed_metric', 'metadata'] as const;

function lintNode(node: Block<'node'>): readonly Problem[] {
  const { values, place } = node;
  const hasLimit = listLimits(node).some((limit) => !limit.values.unlimited);
  const isLimited = hasLimit || values.blocked_by !== undefined;
  const idle = isLimited ? [] : keysOfLimited.filter((key) => values[key]);
  const whyIdle = valueToMetricIsIdle(node, isLimited);
  const hasBudget = listLimits(node).some((limit) => limit.values.budget !== undefined);
  const counts = values.count_when ?? '';
  const isCountIdle = counts !== '' && !hasLimit && values.not_counted !== 'commit';
  const isPriceIdle = values.unit_cost !== undefined && !hasBudget && values.not_counted !== 'commit';
  return present([
    lintText(node, 'key'),
    lintText(node, 'value'),
    ...idle.map((key) => warning(place(key), `${key} has no effect: this node has no limit`)),
    isCountIdle && warning(place('count_when'), 'count_when has no effect: this node has no limit'),
    /4xx|429/.test(counts) && warning(place('count_when'), COUNTS_REFUSALS),
    isPriceIdle && warning(place('unit_cost'), 'unit_cost has no effect: this node has no budget'),
    whyIdle !== undefined && warning(place('value_to_metric'), `value_to_metric has no effect: ${whyIdle}`),
  ]);
}

/** Reason why the node's `value_to_metric` has no effect; undefined if it has one, or is absent. */
function valueToMetricIsIdle({ values }: Block<'node'>, isLimited: boolean): string | undefined {
  const { key = '', value = '', value_to_metric: isWanted = false, descriptors = [] } = values;
  if (!isWanted) return undefined;
  if (values.share_threshold) return 'values that share a counter are shown by their pattern';
  if (value !== '' && isFixed(key) && isFixed(value)) return `the value is always shown, as '${value}'`;
  return isLimited || descriptors.length > 0 ? undefined : 'this node has no limit';
}

/** Texts that are matched literally, though they look like patterns. */
function lintText({ values, place }: Block<'node'>, key: 'key' | 'value'): Problem | undefined {
  const text = values[key] ?? '';
  const warn = (message: string): Problem => warning(place(key), `${key} '${shown(text)}' ${message}`);
  if (text !== text.trim()) return warn('begins or ends with a blank, which is matched as well');
  const what = LITERALS.find(([pattern]) => pattern.test(text));
  if (!what || (key === 'value' && values.key === NETWORK_KEY)) return undefined;
  const isBlock = key === 'value' && addressBlockProblem(text) === undefined;
  const advice = isBlock ? '; write it under addresses to match the addresses in it' : '';
  return warn(`looks like ${what[1]} and is matched literally: only * stands for other text${advice}`);
}

/** Envoy's action of this name sends the network of an address as text: `192.168.0.0/16`. */
const NETWORK_KEY = 'masked_remote_address';

const LITERALS: readonly (readonly [pattern: RegExp, what: string])[] = [
  [/^(\d{1,3}\.){3}\d{1,3}\/\d{1,2}$|^(?=.*:)[\da-fA-F:.]+\/\d{1,3}$/, 'a range of addresses (CIDR)'],
  [/^\^|\$$|(?:^|[/(])\.\*|\.\+|\\[dwsbDWS./]|\[[^\]]*-[^\]]*\][*+?{]?|\(\?|\([^)]*\|[^)]*\)/, 'a regular expression'],
  [/\{[^{}]*\}|\/:[A-Za-z_]\w*|<[A-Za-z_]\w*>/, 'a path template'],
];

/** Numbers and keys that are valid, but do not go together. */
function lintNumbers({ values, place }: Block<'rate_limit'>, spend: string): readonly Problem[] {
  const lowBurst = findLowBurst(values);
  const isDeniedIdle = values.count_denied && spend === 'all_or_nothing';
  return present([
    lowBurst !== undefined && warning(place('burst'), `burst is below the rate: ${lowBurst}`),
    isDeniedIdle &&
      warning(
        place('count_denied'),
        'count_denied has no effect: with spend: all_or_nothing refused hits are not counted',
      ),
    ...(['shadow_mode', 'quota_mode'] as const).map(
      (key) => values.unlimited && values[key] && warning(place(key), `${key} has no effect: nothing is limited here`),
    ),
  ]);
}

/** The hits that a burst below the rate of its limit does not allow; undefined if it is not below. */
function findLowBurst(values: Block<'rate_limit'>['values']): string | undefined {
  const { burst, unit = '', unit_multiplier: units = 1, requests_per_unit: requests = 0, refill } = values;
  if (burst === undefined || !algorithmsWith('refill').some((name) => name === values.algorithm)) return undefined;
  if (refill === 'interval' && burst < requests) return `a refill of ${requests} tokens fills only ${burst}`;
  const unitLength = Object.entries(unitMs).find(([name]) => name === unit.toUpperCase())?.[1];
  const perSecond = unitLength === undefined ? 0 : (requests * 1_000) / (unitLength * units);
  return burst < perSecond ? `${burst} of the ${perSecond} hits of a second pass at once` : undefined;
}

function lintLimit(
  { values, place }: Block<'rate_limit'>,
  domain: string,
  names: ReadonlySet<string>,
): readonly Problem[] {
  const isStated = values.unlimited || ratedBy.some((key) => values[key] !== undefined);
  return present([
    !isStated && warning(place('requests_per_unit'), NO_REQUESTS),
    /["\\]|[^ -~]/.test(values.name ?? '') && warning(place('name'), BREAKS_HEADER),
    ...(values.replaces ?? []).map(({ values: { name = '' }, place: at }) => {
      const isIdle = !names.has(name);
      return isIdle && warning(at('name'), `nothing is replaced: domain '${domain}' has no limit named '${name}'`);
    }),
  ]);
}

/** Keys that state how much passes. */
const ratedBy = [
  'requests_per_unit' as const,
  ...limitKeysWith(({ insteadOf = [] }) => insteadOf.includes('requests_per_unit')),
];

/** Keys of limits that depend on the priority of a request. */
const prioritized = limitKeysWith(({ readsPriority }) => readsPriority === true);

/** Checks `in_flight` limits and ids of requests. @param hasId  a node above has an id */
function lintHolds(nodes: readonly Block<'node'>[], hasId: boolean): readonly Problem[] {
  return nodes.flatMap((node) => {
    const { not_counted: notCounted, descriptors = [] } = node.values;
    const hasOwn = hasId || notCounted === 'hold';
    const below = () => walkLevels([node]).flat().flatMap(listLimits);
    const isIdle = notCounted === 'hold' && !below().some(usesIds);
    const isVain = notCounted === 'priority' && !below().some(prioritizes);
    return present([
      isIdle && warning(node.place('not_counted'), NO_HOLDS),
      isVain && warning(node.place('not_counted'), NO_PRIORITY),
      ...listLimits(node).flatMap((limit) => lintInFlight(limit, hasOwn)),
      lintReleases(node),
      ...lintHolds(descriptors, hasOwn),
    ]);
  });
}

const usesIds = ({ values }: Block<'rate_limit'>): boolean =>
  unitOfNamed(values.algorithm) === 'slots' || reserving.some((key) => values[key] !== undefined);

const prioritizes = ({ values }: Block<'rate_limit'>): boolean => prioritized.some((key) => values[key] !== undefined);

/** Checks limits that reserve hits. @param nodes  all nodes of a domain */
function lintReserve(nodes: readonly Block<'node'>[], spend: string): readonly Problem[] {
  const limits = nodes.flatMap(listLimits).filter(({ values }) => !values.unlimited).length;
  return reserving.flatMap((key) =>
    nodes.flatMap((node) => {
      const { descriptors = [] } = node.values;
      const [first, ...others] = listLimits(node).filter(({ values }) => values[key]);
      if (!first) return [];
      const commits = descriptors.some(({ values }) => values.not_counted === 'commit');
      return present([
        !commits && warning(first.place(key), NO_COMMIT),
        spend === 'each' && limits > 1 && warning(first.place(key), EACH_RESERVES),
        ...[first, ...others].map(
          ({ values, place }) =>
            values.on_store_failure === 'allow' && warning(place('on_store_failure'), NOT_RESERVED),
        ),
      ]);
    }),
  );
}

const NO_COMMIT =
  'no node below has not_counted: commit, with which a proxy reports the use of a request: only weir.v1.Holds can commit';
const EACH_RESERVES =
  'with spend: each, a request that another limit refuses keeps its reservation here until the ttl expires; use spend: all_or_nothing';
const NOT_RESERVED =
  'on_store_failure: allow admits requests without a reservation: their use may exceed the limit once the store is back';

function lintInFlight({ values, place }: Block<'rate_limit'>, hasId: boolean): readonly Problem[] {
  if (unitOfNamed(values.algorithm) !== 'slots') return [];
  return present([
    !hasId && warning(place('algorithm'), NO_ID),
    values.on_store_failure === 'allow' && warning(place('on_store_failure'), NO_SLOT),
  ]);
}

/** Warns of other limits on a node with `in_flight` or `allocation`. */
function lintReleases(node: Block<'node'>): Problem | undefined {
  const limits = listLimits(node).filter(({ values }) => !values.unlimited);
  const first = limits.find(isHeld);
  return first && !limits.every(isHeld) ? warning(first.place('algorithm'), RELEASES_OTHERS) : undefined;
}

const isHeld = ({ values: { algorithm } }: Block<'rate_limit'>): boolean => unitOfNamed(algorithm) !== 'hits';

const RELEASES_OTHERS =
  'a release, even of a refused request, also refunds the other limits of this node; put them on a node that releases do not match';
const NO_HOLDS =
  'not_counted: hold only leaves the value out of counters: no limit here or below has algorithm: in_flight or reserve';
const NO_PRIORITY = `not_counted: priority only leaves the value out of counters: no limit here or below has ${prioritized.join(' or ')}`;
const NO_ID =
  'in_flight without an id counts refused requests until their release, and a slot whose release is lost stays taken as long as requests keep coming; end the descriptor with the id of the request, on a node with not_counted: hold';
const NO_SLOT =
  'on_store_failure: allow admits requests without a slot: more than the limit may be in flight while the store is down, and until these requests end';

const BREAKS_HEADER =
  'a name with ", \\ or characters other than printable ASCII breaks the header x-ratelimit-limit, in which Envoy writes it as it is';
const NO_REQUESTS = 'without requests_per_unit the limit is 0 and refuses every hit; if this is intended, write 0';

const warning = (place: Place, message: string): Problem => problemAt(place, 'warning', message);

/**
 * Finds the nodes of a level that one sibling hides: a `*` after an earlier `*` that matches all it matches, and a key
 * alone if a `*` matches the key with any value. An exact value takes precedence over both and is never
 * hidden, so an entry whose value is the literal text of a hidden pattern still reaches that node. Not found: nodes
 * that only several siblings together hide, and hidden nodes in a level that would take more than `MAX_STEPS`.
 *
 * @param level  the children of one node, in the order of the file
 * @returns each with the sibling that hides it
 */
function findHidden(level: readonly Block<'node'>[]): readonly Record<'node' | 'by', Block<'node'>>[] {
  const patterns: PlacedBlock[] = [];
  let steps = 0;
  const hidden = (one: PlacedBlock) => {
    const cost = comparisonSteps(one.node);
    for (const pattern of patterns) {
      steps += cost * comparisonSteps(pattern.node);
      if (steps > MAX_STEPS) return [];
      if (covers(pattern, one)) return { node: one.node, by: pattern.node };
    }
    return [];
  };
  const placed = level.map(placedBlock);
  const behind = placed.filter(isPattern).flatMap((one) => {
    const found = hidden(one); // by patterns before it: the first match wins
    patterns.push(one);
    return found;
  });
  return [...behind, ...placed.filter((one) => one.value.kind === 'any_value' && !isPattern(one)).flatMap(hidden)];
}

/** Maximum number of comparisons in one level, about a second of work. */
const MAX_STEPS = 10_000_000;

/** A comparison takes the product of both nodes' steps. */
const comparisonSteps = ({ values: { key = '', value = '' } }: Block<'node'>): number =>
  1 + Math.floor((key.length + value.length) / STEP_CHARACTERS);
const STEP_CHARACTERS = 64;

/** A node, and the entries that it matches. */
interface PlacedBlock {
  readonly node: Block<'node'>;
  readonly key: Matcher;
  readonly value: Matcher;
}

const placedBlock = (node: Block<'node'>): PlacedBlock => ({
  node,
  key: textMatcher(node.values.key ?? ''),
  value: valueMatcher(node.values),
});

const isPattern = ({ key, value }: PlacedBlock): boolean => key.kind === 'wildcard' || value.kind === 'wildcard';

/** Whether a node matches all that another one does. */
const covers = (one: PlacedBlock, other: PlacedBlock): boolean =>
  one.key.covers(other.key) && one.value.covers(other.value);
