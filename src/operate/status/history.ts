/** The step and the number of steps of each range beyond the memory of the service. */
export const historyRanges = {
  '1h': { stepMs: 30_000, rows: 120 },
  '24h': { stepMs: 600_000, rows: 144 },
  '7d': { stepMs: 3_600_000, rows: 168 },
  '30d': { stepMs: 14_400_000, rows: 180 },
} as const;
export type HistoryRange = keyof typeof historyRanges;
export const historyRangeNames = Object.keys(historyRanges) as readonly HistoryRange[]; // it has no other keys

/** Columns of numbers for each step, and the time of the first. */
export interface History {
  readonly beginsAtMs: number;
  readonly series: Readonly<Record<string, readonly number[]>>;
}

/** Where the history of this service is kept. */
export interface HistorySource {
  /** The fields of `serviceFields`. @throws Error  it does not answer */
  ofService(range: HistoryRange): Promise<History>;
  /** The fields of `allRuleFields`. @throws Error  it does not answer */
  ofRule(domain: string, rule: string, range: HistoryRange): Promise<History>;
}
