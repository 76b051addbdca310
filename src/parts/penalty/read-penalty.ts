import { writeDuration } from '../../base/texts.ts';
import { durationMs, unitMs } from '../../engine/algorithms/limit.ts';
import { isRateLimit, type Limit } from '../../engine/holds/limits.ts';
import type { Block } from '../../engine/rules/read/block.ts';
import { dividing, reserving } from '../../engine/rules/read/format.ts';
import type { Problems } from '../../engine/rules/read/problem.ts';
import { penaltyBlock } from './keys.ts';
import type { PenaltyLimit } from './penalty.ts';

const growPattern = new RegExp(penaltyBlock.grow.pattern);

/** Bounds of the time of a block, and of its memory. */
const MIN_BLOCK_MS = unitMs.SECOND;
const MAX_BLOCK_MS = unitMs.YEAR;

/** What a penalty cannot have beside it: hits that are counted elsewhere, reserved, or held until they pass. */
const excluded = [...reserving, 'share', 'max_delay', ...dividing] as const;

/** The limit, with a block after it was exceeded if the rule says so. Undefined if that is invalid. */
export function readPenalty(
  { values, place }: Block<'rate_limit'>,
  { limit: inner }: { readonly limit: Limit },
  problems: Problems,
): Limit | undefined {
  const { penalty, consistency = 'strict' } = values;
  if (!penalty) return inner;
  if (penalty.invalid.size > 0) return undefined; // reported already
  const other = consistency === 'strict' ? excluded.find((key) => values[key] !== undefined) : 'consistency';
  if (other) return problems.error(place(other), `${other} cannot be used with penalty: remove one of them`);
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
  const { block, grow, forgiven_after: forgiven, prolong: isProlonged = false } = values;
  const report = (key: keyof typeof values, message: string): undefined => problems.error(place(key), message);
  const blockMs = block === undefined ? undefined : durationMs(block);
  const given = block === undefined ? 'nothing' : `'${block}'`;
  if (!isWithin(blockMs, MIN_BLOCK_MS))
    return report('block', `block must be a time such as 10m or 1h, from 1s to 365d, got ${given}`);
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

const isWithin = (ms: number | undefined, leastMs: number): ms is number =>
  ms !== undefined && ms >= leastMs && ms <= MAX_BLOCK_MS;
