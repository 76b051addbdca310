/** The protocols to explore: the file of each in worlds/, and the name of its export. */
export const protocols: ReadonlyMap<string, readonly [file: string, name: string]> = new Map([
  ['leases', ['leases', 'leases']],
  ['local', ['debts', 'debts']],
  ['settlements', ['debts', 'settlements']],
  ['holds', ['holds', 'holds']],
  ['reservations', ['reservations', 'reservations']],
  ['commits', ['commits', 'commits']],
  ['invalidation', ['invalidation', 'invalidation']],
  ['site-windows', ['sites', 'siteWindows']],
  ['site-buckets', ['sites', 'siteBuckets']],
  ['shares', ['shares', 'shares']],
  ['deferral', ['deferral', 'deferral']],
  ['candidate', ['candidate', 'candidate']],
]);
