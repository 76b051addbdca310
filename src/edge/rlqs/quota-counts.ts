/** Counts of the rate limit quota service in this process. */
export interface QuotaCounts {
  /** Currently open streams and buckets. */
  streams: number;
  buckets: number;
  /** Counts since the process started. */
  reports: number;
  assignments: number;
  abandoned: number;
  /** Reports of buckets to which no rule applies. */
  unknown: number;
  /** Reports that the store could not accept. */
  unavailable: number;
}

export const noQuotaCounts = (): QuotaCounts => ({
  streams: 0,
  buckets: 0,
  reports: 0,
  assignments: 0,
  abandoned: 0,
  unknown: 0,
  unavailable: 0,
});
