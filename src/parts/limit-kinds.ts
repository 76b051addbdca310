import { adaptive } from './adaptive/adaptive.ts';
import { penalty } from './penalty/penalty.ts';
import { siteShare } from './sites/site-share.ts';

/** Kinds of limits that keys of rules select, by their names. The engine counts them by these rows. */
export const otherKinds = {
  adaptive,
  site_share: siteShare,
  penalty,
};
