import type { HoldsCaller } from '../../src/parts/holds/slots.ts';

/** A caller without a deadline, which does not give up unless `onGone` says so. */
export const callerOf = (onGone: HoldsCaller['onGone'] = () => {}): HoldsCaller => ({
  timeLeftMs: () => Number.POSITIVE_INFINITY,
  onGone,
});
