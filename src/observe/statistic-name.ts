/**
 * A name as StatsD can take it, by envoyproxy/ratelimit's rules: `:` and `|` mean something there, and dots within what looks like an
 * IPv4 address would be levels. Line breaks, which would end the line, are replaced as well.
 */
export const asStatisticName = (name: string): string =>
  name.replaceAll(/[:|\r\n]/g, '_').replaceAll(/(?<!\d)(\d+)\.(\d+)\.(\d+)\.(\d+)/g, '$1_$2_$3_$4');

/** The value of a tag, within a name or beside it: dots as well, since they would be levels. */
export const asTagValue = (value: string): string => value.replaceAll(/[.:|\r\n]/g, '_');
