import { adaptive } from './adaptive/adaptive.ts';
import { fairShare } from './fair-shares/fair-share.ts';
import { sharedSlots } from './fair-shares/shared-slots.ts';
import { penalty } from './penalty/penalty.ts';
import { reservation } from './reservations/reservation.ts';
import { siteShare } from './sites/site-share.ts';

/** Kinds of limits that keys of rules select, by their names. The engine counts them by these rows. */
export const otherKinds = {
  reservation,
  fair_share: fairShare,
  shared_slots: sharedSlots,
  adaptive,
  site_share: siteShare,
  penalty,
};
