import { rateNames } from '../../engine/algorithms/index.ts';
import { DURATION } from '../../engine/algorithms/limit.ts';

/** The key of a limit. */
export const penaltyKey = {
  type: 'block',
  of: 'penalty',
  goesWith: rateNames,
  blocks: true,
  meaning: 'once the limit is exceeded, everything is refused for a time: { block: 10m }',
} as const;

export const penaltyBlock = {
  block: {
    type: 'text',
    required: true,
    pattern: DURATION,
    meaning: 'how long hits are refused after the limit is exceeded: 10m, 1h; from 1s to 365d',
  },
  grow: {
    type: 'text',
    pattern: `^([2-9]|10)x up to ${DURATION.slice(1)}`,
    meaning: 'how much longer each further block is: 2x up to 1d; absent: all are equal',
  },
  forgiven_after: {
    type: 'text',
    pattern: DURATION,
    meaning:
      'with grow: the time after a block after which the next one is the first again; absent: as long as the longest block',
  },
  prolong: { type: 'flag', meaning: 'refused hits begin the block anew; absent: they do not' },
} as const;
