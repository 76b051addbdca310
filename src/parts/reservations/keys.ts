import { rateNames } from '../../engine/algorithms/index.ts';
import { DURATION } from '../../engine/algorithms/limit.ts';
import { MONEY } from '../../engine/algorithms/money.ts';
import { canOwe } from '../../engine/holds/limits.ts';
import { lapses, overruns } from './reservation.ts';

/** The key of a limit. */
export const reserve = {
  type: 'block',
  of: 'reserve',
  reserves: true,
  goesWith: rateNames.filter(canOwe),
  meaning:
    'hits are reserved when a request begins, and charged when its use is known; requires an id (not_counted: hold)',
} as const;

export const reserveBlock = {
  ttl: {
    type: 'text',
    required: true,
    pattern: DURATION,
    meaning:
      'time after which an uncommitted reservation lapses; must exceed the duration of any request: 60s, 5m; at most 1d',
  },
  on_overrun: {
    type: 'text',
    choices: overruns,
    meaning: 'what happens to hits beyond the reservation: debt (the default) charges them, clip does not',
  },
  on_lapse: {
    type: 'text',
    choices: lapses,
    meaning:
      'what happens to a reservation that is not committed within its ttl: charge (the default) keeps it as used, until a late commit corrects it; free releases it',
  },
  estimate: {
    type: 'text',
    pattern: `^([1-9][0-9]*|p95)$|${MONEY}`,
    meaning:
      'minimum reservation: a number of hits (of a budget: 0.05 USD), or p95 (95 % of the last requests of the counter used at most this much); absent: the hits of the request',
  },
} as const;
