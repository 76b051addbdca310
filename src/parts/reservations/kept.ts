import type { OpenReservations } from '../../engine/ledger/reservations.ts';
import { FollowedLapses } from './lapses.ts';
import { KeptCommits } from './pending-commits.ts';

/** What a ledger keeps for reservations. */
export const keptReservations: OpenReservations = {
  lapses: (context) => new FollowedLapses(context),
  pendingCommits: (context) => new KeptCommits(context),
};
