/** What a step reports besides its decision, if its hits have holders or are one site's. */
export interface Reports {
  /** Hits that the request may use together with all others. Default: those of the limit. */
  readonly capacity?: number;
  /** For limits on requests in flight. */
  readonly holds?: HoldsReport;
  /** For limits whose hits are reserved first. */
  readonly reservation?: ReservationReport;
  /** For exchanges between sites. */
  readonly site?: SiteReport;
  /** For limits that children share. */
  readonly share?: ShareReport;
  /** For limits with a penalty: the block that applies now. */
  readonly penalty?: PenaltyReport;
}

/** A block after a limit was exceeded. */
export interface PenaltyReport {
  readonly leftMs: number;
  readonly lengthMs: number;
  /** The hits of this step have begun it. */
  readonly isBegun: boolean;
}

/** The requests in flight on a counter. */
interface HoldsReport {
  /** Slots that are taken now. */
  readonly held: number;
  /** Time since the first of them to expire was taken; 0 if there is none. */
  readonly oldestMs: number;
  /** Slots that had expired before they were released, and are free again. */
  readonly expired: number;
  /** For limits with `adapt`. */
  readonly adapted?: AdaptedReport;
}

/** Why an adaptive limit is what it is, in the order of their numbers in its report. */
export const moveTexts = {
  new: 'the minimum, as nothing has been measured',
  grown: 'raised, as it was used and requests did not queue',
  unused: 'kept, as it was not used',
  queueing: 'lowered, as requests queue upstream',
  failures: 'lowered, as requests failed (at once: counted for the time of their slots)',
  failing: 'kept, as requests fail at any number in flight',
  probing: 'halved for a moment, to measure the time without a queue',
  probed: 'set by the time without a queue, which was just measured',
  idle: 'halved after a time without requests',
} as const;
type Move = keyof typeof moveTexts;
export const moves = Object.keys(moveTexts) as readonly Move[]; // exactly its keys

/** An adaptive limit, and what it was estimated from. */
export interface AdaptedReport {
  /** Slots. */
  readonly limit: number;
  readonly move: Move;
  /** Mean hold time in the last window, and that without a queue; 0 if unknown. */
  readonly holdMs: number;
  readonly baselineMs: number;
}

/** The outcomes of a step of a reservation, in the order of their numbers in its report. */
export const reservationEvents = [
  'peeked',
  'refused', // because of hits on hold
  'refused_alone', // even with no hits on hold
  'reserved',
  'committed',
  'late', // committed after its reservation had expired
  'unknown', // used, but not reserved here
  'repeated', // committed before: no effect
  'given_back',
  'full', // the counter holds its maximum of requests
  'added', // charged by another part of the same commit
] as const;
export type ReservationEvent = (typeof reservationEvents)[number];

/** The events of a commit. */
export const commitEvents: ReadonlySet<ReservationEvent> = new Set([
  'committed',
  'late',
  'unknown',
  'repeated',
  'added',
]);

/** The outcome for a reservation, and the other hits on hold. Whole hits. */
export interface ReservationReport {
  readonly event: ReservationEvent;
  /** Hits that this request reserved, now or before. */
  readonly reserved: number;
  /** Hits that this commit charged. */
  readonly charged: number;
  /** Hits used beyond those reserved, whether charged or not. */
  readonly overrun: number;
  /** Hits on hold after the step, for all requests. */
  readonly held: number;
  /** Hits of reservations that have lapsed without a commit since the last step, and how many these are. */
  readonly lapsed: number;
  readonly lapses: number;
  /** Hits that this step adds to the usage: charged ones, and lapsed ones that stay charged; negative: a correction. */
  readonly usage: number;
  /** Requests with hits on hold. */
  readonly open: number;
  /** Time since the first of them to expire was made; 0 if there is none. */
  readonly oldestMs: number;
}

/** Why a shared limit decides as it does, in the order of their numbers in its report. */
export const shareReasons = [
  'passed',
  'empty', // the limit itself is used up
  'held', // what is left is reserved for active siblings
  'priority', // what is left is for higher priorities
  'share', // the child has used its fair share
  'ceiling', // the child's own maximum
] as const;
type ShareReason = (typeof shareReasons)[number];

/** A child's part of a shared limit, in the current second. Whole hits. */
export interface ShareReport {
  readonly reason: ShareReason;
  /** The level on the path whose share or ceiling refuses, from 1; else 0. */
  readonly level: number;
  readonly used: number;
  /** Used hits that its own reservation did not cover. */
  readonly borrowed: number;
  /** What is left of its reservation. */
  readonly unspent: number;
  /** Unspent reservations of its active siblings, which it cannot borrow. */
  readonly held: number;
}

/** A site's part of a limit that sites share, in the epoch of its counter. Whole hits. */
export interface SiteReport {
  /** When the epoch began, on the clock of the site's store, and how long it still lasts. */
  readonly epochMs: number;
  readonly leftMs: number;
  /** The clock of the site's store. */
  readonly nowMs: number;
  /** Recent demand: hits requested in half a second. */
  readonly demand: number;
  /** Hits that the site may still admit; negative if it has admitted hits in advance. */
  readonly room: number;
  /** Hits that it has admitted; for a bucket, those that have not been refilled, and those that it has lent. */
  readonly used: number;
  /** Hits lent to and taken from each site, in the order of the sites. */
  readonly given: readonly number[];
  readonly taken: readonly number[];
}

/** This site's part of a limit, and what has been moved. Whole hits. */
export interface SiteStanding {
  readonly base: number;
  readonly advance: number;
  readonly used: number;
  readonly lent: number;
  readonly borrowed: number;
}

/** Whether the hits belong to a request that was decided before. */
export const isCommit = ({ reservation }: Reports): boolean =>
  reservation !== undefined && commitEvents.has(reservation.event);
