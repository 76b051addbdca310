import { DURATION } from '../../engine/algorithms/limit.ts';
import { adaptTargets } from './estimate.ts';

/** The key of a limit. */
export const adapt = {
  type: 'block',
  of: 'adapt',
  insteadOf: ['requests_per_unit'],
  goesWith: ['in_flight'],
  readsPriority: true,
  meaning: 'in_flight: the number of slots follows from hold times and outcomes; requires an id (not_counted: hold)',
} as const;

export const adaptBlock = {
  target: {
    type: 'text',
    choices: adaptTargets,
    meaning:
      'what lowers the number of slots: gradient (the default), longer hold times and failures; aimd, failures alone',
  },
  min: { type: 'count', minimum: 1, meaning: 'smallest number of slots; absent: 4' },
  max: { type: 'count', minimum: 1, meaning: 'largest number of slots, at most 1,000; absent: 1,000' },
  window: {
    type: 'text',
    pattern: DURATION,
    meaning: 'shortest time between two changes: 500ms; 100ms to 1m; absent: 1s',
  },
} as const;
