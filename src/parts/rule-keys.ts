import { adapt, adaptBlock } from './adaptive/keys.ts';
import { sites, sitesBlock } from './sites/keys.ts';

/** Keys of `rate_limit`. */
export const otherKeys = {
  adapt,
  sites,
} as const;

/** The blocks that they hold. */
export const otherBlocks = {
  adapt: adaptBlock,
  sites: sitesBlock,
} as const;
