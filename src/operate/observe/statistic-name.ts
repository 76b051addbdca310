/**
 * Makes a name valid for StatsD, by envoyproxy/ratelimit's rules: replaces `:` and `|`, which are separators, and the
 * dots of IPv4 addresses, which would be levels. Also replaces line breaks.
 */
export const asStatisticName = (name: string): string =>
  name.replaceAll(/[:|\r\n]/g, '_').replaceAll(/(?<!\d)(\d+)\.(\d+)\.(\d+)\.(\d+)/g, '$1_$2_$3_$4');
