import type { LimitOverTime, RuleLimit, RuleSchedule } from '../match/tree.ts';
import type { Block } from '../read/block.ts';
import type { Problems } from '../read/problem.ts';

/** What is known of a limit when its times are read. */
export interface TimedLimit {
  /** Its index among the limits of the node. */
  readonly of: number;
  /** The limit of the block without regard to times; undefined if that is invalid. */
  readonly own: RuleLimit | undefined;
  /** Builds another limit of the same node. */
  readonly build: (block: Block<'rate_limit'>, problems: Problems) => RuleLimit | undefined;
}

/** Reads when limits apply, and decides which do. */
export interface LimitTimes {
  /**
   * One limit with its times: those of its schedule in order, then its own. Undefined if it says `unlimited`, or is
   * invalid: `problems` has the reason then.
   */
  read(block: Block<'rate_limit'>, limit: TimedLimit, problems: Problems): LimitOverTime | undefined;
  /** When each limit applies; undefined if all always apply. */
  schedule(limits: readonly LimitOverTime[]): RuleSchedule | undefined;
}
