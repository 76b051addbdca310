import type { OpenReservations } from '../engine/ledger/reservations.ts';
import { keptReservations } from './reservations/kept.ts';

/** Functions that open what a ledger keeps for reservations. */
export const reservationKeepers: Readonly<Record<string, OpenReservations>> = {
  reservations: keptReservations,
};
