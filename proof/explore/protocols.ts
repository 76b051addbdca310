/** The protocols to explore: the file of each in worlds/, and the name of its export. */
export const protocols: ReadonlyMap<string, readonly [file: string, name: string]> = new Map([
  ['leases', ['leases', 'leases']],
  ['leases-three', ['leases', 'leasesOfThree']],
  ['local', ['debts', 'debts']],
  ['settlements', ['debts', 'settlements']],
  ['holds', ['holds', 'holds']],
  ['holds-three', ['holds', 'holdsOfThree']],
  ['reservations', ['reservations', 'reservations']],
  ['commits', ['commits', 'commits']],
  ['invalidation', ['invalidation', 'invalidation']],
  ['site-windows', ['sites', 'siteWindows']],
  ['sites-three', ['sites', 'siteWindowsOfThree']],
  ['site-buckets', ['sites', 'siteBuckets']],
  ['shares', ['shares', 'shares']],
  ['shares-three', ['shares', 'sharesOfThree']],
  ['deferral', ['deferral', 'deferral']],
  ['candidate', ['candidate', 'candidate']],
]);
