// biome-ignore-all lint/style/noRestrictedGlobals: formats and reads times that others give

/** Formats a time as in RFC 3339, in UTC. */
export const rfc3339 = (atMs: number): string => new Date(atMs).toISOString();

/** Parses a time of RFC 3339 to milliseconds since the epoch, or returns undefined. */
export function parseTime(text: string): number | undefined {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/.test(text)) return undefined;
  const atMs = Date.parse(text);
  return Number.isNaN(atMs) ? undefined : atMs;
}
