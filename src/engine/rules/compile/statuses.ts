import { canBlock, isRateLimit, isReservation, type Limit } from '../../holds/limits.ts';
import type { RuleLimit, Statuses } from '../match/tree.ts';
import type { Block } from '../read/block.ts';
import { format } from '../read/format.ts';
import type { Problems } from '../read/problem.ts';

const pattern = new RegExp(format.node.count_when.pattern);

/** The statuses of responses that a node counts; undefined if it counts all hits, or if they are invalid. */
export function readStatuses(
  { values, place, invalid }: Block<'node'>,
  limits: readonly RuleLimit[],
  problems: Problems,
): Statuses | undefined {
  const { count_when: text, not_counted: notCounted } = values;
  if (text === undefined || invalid.has('count_when')) return undefined;
  const report = (message: string): undefined => problems.error(place('count_when'), message);
  if (!pattern.test(text)) return report(`count_when must be statuses such as 401|403|5xx, got '${text}'`);
  const counts: (limit: Limit) => boolean =
    notCounted === 'commit' ? isReservation : (limit) => isRateLimit(limit) || canBlock(limit);
  if (!limits.every(({ limit }) => counts(limit)))
    return report(
      'count_when goes with limits on rates; with reserve, put it on the node with not_counted: commit, whose hits are then the status',
    );
  return { text, ranges: text.split('|').map(rangeOf) };
}

/** The statuses of `401`, or of `5xx`. */
function rangeOf(text: string): Statuses['ranges'][number] {
  return [Number(text.replace('xx', '00')), Number(text.replace('xx', '99'))];
}
