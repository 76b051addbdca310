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
  { limit: inner }: { readonly limit: Limit | undefined },
  problems: Problems,
): Limit | undefined {
  const { penalty, consistency = 'strict' } = values;
  if (!penalty) return inner;
  const before = problems.all.length;
  const others = excluded.filter((key) => values[key] !== undefined);
  for (const other of [...others, ...(consistency === 'strict' ? [] : (['consistency'] as const))])
    problems.error(place(other), `${other} cannot be used with penalty: remove one of them`);
  if (values.on_store_failure === 'local')
    problems.error(
      place('on_store_failure'),
      'on_store_failure: local cannot be used with penalty: other processes would not know of a block; use error, allow or deny',
    );
  const block = readBlock(penalty, problems);
  if (!inner || !isRateLimit(inner) || !block || problems.all.length > before) return undefined; // it goes with no others
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

function readBlock(penalty: Block<'penalty'>, problems: Problems): BlockNumbers | undefined {
  const { values, invalid, place } = penalty;
  const { block, grow, forgiven_after: forgiven, prolong: isProlonged = false } = values;
  const report = (key: keyof typeof values, message: string): undefined => problems.error(place(key), message);
  const blockMs = readTime(block);
  if (blockMs === undefined && !invalid.has('block')) {
    const given = block === undefined ? 'nothing' : `'${block}'`;
    report('block', `block must be a time such as 10m or 1h, from 1s to 365d, got ${given}`);
  }
  const growing = grow === undefined ? undefined : readGrowth(grow, blockMs, (message) => report('grow', message));
  const forgivenMs = forgiven === undefined ? growing?.longestMs : readTime(forgiven);
  if (forgiven !== undefined && grow === undefined && !invalid.has('grow'))
    report('forgiven_after', 'forgiven_after goes with grow: blocks of equal length need no forgiveness');
  else if (forgiven !== undefined && forgivenMs === undefined)
    report('forgiven_after', `forgiven_after must be a time such as 1d, from 1s to 365d, got '${forgiven}'`);
  if (blockMs === undefined || invalid.size > 0) return undefined;
  if (grow === undefined) return { blockMs, growth: 1, longestMs: blockMs, forgivenMs: 0, isProlonged };
  return growing && forgivenMs !== undefined ? { blockMs, ...growing, forgivenMs, isProlonged } : undefined;
}

/** @param blockMs  the first block; undefined if it is invalid */
function readGrowth(grow: string, blockMs: number | undefined, report: (message: string) => undefined) {
  if (!growPattern.test(grow))
    return report(`grow must be a factor from 2 to 10 and the longest block, such as 2x up to 1d, got '${grow}'`);
  const [factor = '', longest = ''] = grow.split('x up to ');
  const longestMs = durationMs(longest);
  if (blockMs === undefined) return undefined;
  if (isWithin(longestMs, blockMs + 1)) return { growth: Number(factor), longestMs };
  return report(`grow must end above the block of ${writeDuration(blockMs)}, at most 365d, got '${grow}'`);
}

/** Undefined if it is not the time of a block. */
function readTime(written = ''): number | undefined {
  const ms = durationMs(written);
  return isWithin(ms, MIN_BLOCK_MS) ? ms : undefined;
}

const isWithin = (ms: number | undefined, leastMs: number): ms is number =>
  ms !== undefined && ms >= leastMs && ms <= MAX_BLOCK_MS;
