/** Counts of the rate limit quota service in this process. */
export type QuotaCounts = ReturnType<typeof noQuotaCounts>;

export const noQuotaCounts = () => ({
  /** Currently open streams and buckets. */
  streams: 0,
  buckets: 0,
  /** Counts since the process started. */
  reports: 0,
  assignments: 0,
  abandoned: 0,
  /** Reports of buckets to which no rule applies. */
  unknown: 0,
  /** Reports that the store could not accept. */
  unavailable: 0,
});
