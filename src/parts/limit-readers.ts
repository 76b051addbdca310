import type { SiteSplit } from '../engine/holds/claim.ts';
import type { Limit } from '../engine/holds/limits.ts';
import type { Block } from '../engine/rules/read/block.ts';
import type { Problems } from '../engine/rules/read/problem.ts';
import { readAdapt } from './adaptive/read-adapt.ts';
import { readShare } from './fair-shares/read-share.ts';
import { readPenalty } from './penalty/read-penalty.ts';
import { readReserve } from './reservations/read-reserve.ts';
import { readSites } from './sites/read-sites.ts';

/** What is known of a limit when its keys are read. */
interface Reading {
  /** Undefined if it is invalid: only the key's own block is checked then. */
  readonly limit: Limit | undefined;
  /** Requests have an id. */
  readonly hasId: boolean;
  /** Division of limits that sites share; absent if this is the only site. */
  readonly split?: SiteSplit | undefined;
}

type Reader = (block: Block<'rate_limit'>, reading: Reading, problems: Problems) => Limit | undefined;

/**
 * Functions that change the limit of a rule as keys of parts say, one after another. Without its key, each returns the
 * limit as it is; if the key is invalid, it returns undefined, and `problems` has the reasons.
 */
export const limitReaders: Readonly<Record<string, Reader>> = {
  'fair-shares': readShare,
  adaptive: readAdapt,
  sites: readSites,
  penalty: readPenalty,
};

/** The same for limits whose counters have got their names, which such a key only extends. */
export const outerReaders: Readonly<Record<string, Reader>> = {
  reservations: readReserve,
};
