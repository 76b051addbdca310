/** Counts of the rate limit quota service in this process. */
export interface QuotaCounts {
  /** Open now. */
  streams: number;
  buckets: number;
  /** Since the start. */
  reports: number;
  assignments: number;
  abandoned: number;
  /** Reports of buckets that no rule can be applied to. */
  unknown: number;
  /** Reports that the store could not take. */
  unavailable: number;
}

export const noQuotaCounts = (): QuotaCounts => ({
  ...{ streams: 0, buckets: 0, reports: 0, assignments: 0, abandoned: 0, unknown: 0, unavailable: 0 },
});

export const sumOfQuotaCounts = (one: QuotaCounts, other: QuotaCounts): QuotaCounts => ({
  streams: one.streams + other.streams,
  buckets: one.buckets + other.buckets,
  reports: one.reports + other.reports,
  assignments: one.assignments + other.assignments,
  abandoned: one.abandoned + other.abandoned,
  unknown: one.unknown + other.unknown,
  unavailable: one.unavailable + other.unavailable,
});
