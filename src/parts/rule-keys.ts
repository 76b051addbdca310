import { adapt, adaptBlock } from './adaptive/keys.ts';
import { penaltyBlock, penaltyKey } from './penalty/keys.ts';
import { reserve, reserveBlock } from './reservations/keys.ts';
import { active, activeBlock, schedule, scheduledBlock } from './schedules/keys.ts';
import { sites, sitesBlock } from './sites/keys.ts';

/** Keys of `rate_limit`. */
export const otherKeys = {
  adapt,
  sites,
  penalty: penaltyKey,
  reserve,
} as const;

/** Those that say when it applies. */
export const timeKeys = {
  active,
  schedule,
} as const;

/** The blocks that they hold. */
export const otherBlocks = {
  adapt: adaptBlock,
  sites: sitesBlock,
  penalty: penaltyBlock,
  reserve: reserveBlock,
  scheduled: scheduledBlock,
  active: activeBlock,
} as const;
