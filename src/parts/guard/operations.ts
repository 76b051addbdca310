import { fields, type ValueOf, whole } from '../../base/shape.ts';
import { unitMs } from '../../engine/algorithms/limit.ts';
import { describeApplied, Overrides } from '../../engine/decide/overrides.ts';
import { type Entry, match, withIds } from '../../engine/rules/match/match.ts';
import type { RuleLimit, RuleTree } from '../../engine/rules/match/tree.ts';
import { addressBlockText, parseAddressBlock } from '../../engine/rules/read/address-block.ts';
import { operation } from '../../operate/admin/api.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import { onlyRule, pageSize, refuseUnknownRule } from '../../operate/admin/parameters.ts';
import { ApiProblem } from '../../operate/admin/problem.ts';
import type { Scope } from '../../operate/admin/scope.ts';
import { describeTop, readTop } from '../lab/sketches/rule-top.ts';
import type { ShownKey } from '../lab/sketches/shapes.ts';
import type { Offender, OffenderList } from './answers.ts';

/** Keys of the descriptors by which Envoy sends the address of a client. */
const ADDRESS_KEYS: readonly string[] = ['remote_address', 'masked_remote_address'];
const DEFAULT_TIMES = 10;
const MAX_COUNT = 1_000;

const offenderQuery = fields(
  {},
  {
    times: {
      ...whole,
      minimum: 1,
      maximum: 1_000_000,
      description: `requests were refused at least this many times what the limit admits; ${DEFAULT_TIMES} by default`,
    },
    rule: onlyRule,
    count: pageSize(MAX_COUNT),
  },
);

/** The operation that lists addresses which continue although they are refused. */
export const offenderOperations = (options: AdminOptions) => ({
  operations: [
    operation('GET /api/v1/offenders', {
      summary: 'addresses that were refused many times their limit in the last minute',
      need: 'read',
      domains: 'selected',
      query: offenderQuery,
      answers: `Addresses in entries with the key ${ADDRESS_KEYS.join(' or ')}, the most refused first. \`admits\` is what the limit admits in a minute, or in its window if that is longer. Exempted addresses are left out.`,
      answer: ({ query, scope }) => offenders(options, query, scope),
    }),
  ],
});

async function offenders(
  options: AdminOptions,
  { times = DEFAULT_TIMES, rule: only, count = MAX_COUNT }: ValueOf<typeof offenderQuery>,
  scope: Scope,
): Promise<OffenderList> {
  if (options.hash) throw new ApiProblem(409, 'HASH_KEYS hides the addresses of callers: offenders cannot be listed');
  const tops = await readTop(options, { by: 'refused_requests', rule: only });
  const tree = options.rules();
  if (only !== undefined && tops.length === 0) refuseUnknownRule(tree, only);
  const overrides = new Overrides(options.clock, (unit) => unitMs[unit]);
  overrides.replace([...options.overrides.all()]);
  const found = tops.flatMap((top) =>
    describeTop(top, MAX_COUNT, undefined)
      .keys.filter(({ hits, atMostTooHighBy }) => hits - atMostTooHighBy >= times)
      .flatMap((key) => (tree ? describeOffender(key.rule ?? top.rule, key, { tree, overrides }) : [])),
  );
  const worst = found
    .filter(({ refused, admits, domain }) => refused >= times * admits && scope.hasDomain(domain))
    .sort((one, other) => other.refused - one.refused);
  return { windowSeconds: 60, times, offenders: worst.slice(0, count), more: Math.max(worst.length - count, 0) };
}

interface Current {
  readonly tree: RuleTree;
  readonly overrides: Overrides;
}

/** The address in a descriptor and its limit now; nothing without an address, or if it is not limited any more. */
function describeOffender(
  rule: string,
  { entries = [], descriptor, hits, atMostTooHighBy }: ShownKey,
  { tree, overrides }: Current,
): readonly Offender[] {
  const written = entries.find(({ key }) => ADDRESS_KEYS.includes(key))?.value ?? '';
  const block = parseAddressBlock(written);
  if (!block) return [];
  for (const domain of tree.domains.keys()) {
    const limits = rule.startsWith(`${domain}.`) ? findLimits(rule, domain, entries, { tree, overrides }) : undefined;
    const [first, ...others] = limits ?? [];
    if (!first) continue;
    const widest = others.reduce((most, one) => (admits(one) > admits(most) ? one : most), first);
    const limit = describeApplied(widest);
    const refused = Math.floor(hits - atMostTooHighBy);
    return [{ address: addressBlockText(block), rule, domain, descriptor, refused, limit, admits: admits(widest) }];
  }
  return [];
}

function findLimits(
  rule: string,
  domain: string,
  entries: readonly Entry[],
  { tree, overrides }: Current,
): readonly RuleLimit[] | undefined {
  for (const sent of [entries, ...withIds(tree, domain, entries)]) {
    const found = match(tree, domain, { entries: sent, requestLimit: undefined });
    if (!('rule' in found) || found.rule.path !== rule) continue;
    const applied = overrides.apply(found, domain, sent);
    return applied.kind === 'limited' ? applied.limits : undefined;
  }
  return undefined;
}

/** Hits that a limit admits in a minute, or in its window if that is longer; 1 if it admits none. */
const admits = ({ limit: { requestsPerUnit, windowMs } }: RuleLimit): number =>
  Math.max(requestsPerUnit, 1) * Math.max(unitMs.MINUTE / windowMs, 1);
