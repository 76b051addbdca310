// biome-ignore-all lint/style/noRestrictedGlobals: formats and reads times that others give

/** A time in the format of RFC 3339, in UTC. */
export const rfc3339 = (atMs: number): string => new Date(atMs).toISOString();

/** Milliseconds since the epoch; undefined if the text is not a time of RFC 3339. */
export function parseTime(text: string): number | undefined {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/.test(text)) return undefined;
  const atMs = Date.parse(text);
  return Number.isNaN(atMs) ? undefined : atMs;
}
