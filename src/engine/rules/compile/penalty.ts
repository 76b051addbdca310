import { unitMs } from '../../algorithms/limit.ts';
import { isPenalty, isRateLimit, type Limit } from '../../holds/limits.ts';
import { type PenaltyLimit, writeDuration } from '../../holds/penalty.ts';
import type { IdEntry, Node, Rule, RuleLimit } from '../match/tree.ts';
import type { Block } from '../read/block.ts';
import { format } from '../read/format.ts';
import type { Problems } from '../read/problem.ts';
import { durationMs } from '../time/duration.ts';

const growPattern = new RegExp(format.penalty.grow.pattern);

/** Bounds of the time of a block, and of its memory. */
const MIN_BLOCK_MS = unitMs.SECOND;
const MAX_BLOCK_MS = unitMs.YEAR;

/** What a penalty cannot have beside it: hits that are counted elsewhere, reserved, or held until they pass. */
const excluded = {
  reserve: undefined,
  sites: undefined,
  share: undefined,
  max_delay: undefined,
  consistency: 'strict',
} as const satisfies { readonly [K in keyof Block<'rate_limit'>['values']]?: string | undefined };

/** The limit, with a block after it was exceeded if the rule says so. Undefined if that is invalid. */
export function readPenalty(
  { values, place }: Block<'rate_limit'>,
  inner: Limit,
  problems: Problems,
): Limit | undefined {
  const { penalty } = values;
  if (!penalty) return inner;
  if (penalty.invalid.size > 0) return undefined; // reported already
  for (const [key, allowed] of Object.entries(excluded) as [keyof typeof excluded, string | undefined][])
    if (values[key] !== undefined && values[key] !== allowed)
      return problems.error(place(key), `${key} and penalty are mutually exclusive: remove one of them`);
  if (values.on_store_failure === 'local')
    return problems.error(
      place('on_store_failure'),
      'on_store_failure: local cannot be used with penalty: other processes would not know of a block; use error, allow or deny',
    );
  if (!isRateLimit(inner)) return undefined; // it goes with no others
  const block = readBlock(penalty, problems);
  if (!block) return undefined;
  const { requestsPerUnit, soft, windowMs, currency, counter } = inner;
  return {
    currency,
    algorithm: 'penalty',
    counter: `${counter}+penalty`,
    requestsPerUnit,
    soft,
    windowMs,
    inner,
    ...block,
  } satisfies PenaltyLimit;
}

type BlockNumbers = Pick<PenaltyLimit, 'blockMs' | 'growth' | 'longestMs' | 'forgivenMs' | 'isProlonged'>;

function readBlock({ values, place }: Block<'penalty'>, problems: Problems): BlockNumbers | undefined {
  const { block = '', grow, forgiven_after: forgiven, prolong: isProlonged = false } = values;
  const report = (key: keyof typeof values, message: string): undefined => problems.error(place(key), message);
  const blockMs = durationMs(block);
  if (!isWithin(blockMs, MIN_BLOCK_MS))
    return report('block', `block must be a time such as 10m or 1h, from 1s to 365d, got '${block}'`);
  if (grow === undefined) {
    if (forgiven !== undefined)
      return report('forgiven_after', 'forgiven_after goes with grow: blocks of equal length need no forgiveness');
    return { blockMs, growth: 1, longestMs: blockMs, forgivenMs: 0, isProlonged };
  }
  if (!growPattern.test(grow))
    return report(
      'grow',
      `grow must be a factor from 2 to 10 and the longest block, such as 2x up to 1d, got '${grow}'`,
    );
  const [factor = '', longest = ''] = grow.split('x up to ');
  const [growth, longestMs] = [Number(factor), durationMs(longest)];
  if (!isWithin(longestMs, blockMs + 1))
    return report('grow', `grow must end above the block of ${writeDuration(blockMs)}, at most 365d, got '${grow}'`);
  const forgivenMs = forgiven === undefined ? longestMs : durationMs(forgiven);
  if (!isWithin(forgivenMs, MIN_BLOCK_MS))
    return report('forgiven_after', `forgiven_after must be a time such as 1d, from 1s to 365d, got '${forgiven}'`);
  return { blockMs, growth, longestMs, forgivenMs, isProlonged };
}

/** The level of a node: the node above, and the entries down to it. */
interface LevelAbove {
  readonly node: Pick<Node, 'rule'> | undefined;
  readonly levels: readonly string[];
  readonly ids: readonly IdEntry[];
  readonly problems: Problems;
}

/** The rule, with the limits of the node above whose blocks apply to it. */
export function withBlocks(
  { values: { blocked_by: names }, place }: Block<'node'>,
  rule: Rule | undefined,
  { node, levels, ids, problems }: LevelAbove,
): Rule | undefined {
  if (!names || !rule) return rule;
  const report = (message: string): undefined => problems.error(place('blocked_by'), message);
  if (rule.unlimited || rule.schedule || rule.commitAt !== undefined || rule.sharedBelow !== undefined)
    return report(
      'blocked_by cannot be used beside unlimited, active, schedule, share and not_counted: commit: remove one of them',
    );
  const above = levels.length - ids.length;
  const watched = names.flatMap((name): readonly RuleLimit[] => {
    const found = node?.rule?.limits.find(
      ({ limit, label, times }) => label.name === name && !times && isPenalty(limit),
    );
    if (!found) report(`blocked_by requires a limit with penalty and the name '${name}' on the node directly above`);
    return found
      ? [{ ...found, limit: { ...found.limit, above } as PenaltyLimit, policy: { ...found.policy, watches: true } }]
      : [];
  });
  return { ...rule, limits: [...rule.limits, ...watched] };
}

const isWithin = (ms: number | undefined, leastMs: number): ms is number =>
  ms !== undefined && ms >= leastMs && ms <= MAX_BLOCK_MS;
