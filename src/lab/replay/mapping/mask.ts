/** An address reduced to its first bits, in Envoy's format: `10.1.0.0/16`, `2001:db8::/32`. Undefined: no address. */
export function masked(address: string, v4Bits: number, v6Bits: number): string | undefined {
  const v4 = v4Of(address);
  if (v4 !== undefined) {
    const kept = v4Bits === 0 ? 0 : (v4 & (-1 << (32 - v4Bits))) >>> 0;
    return `${[24, 16, 8, 0].map((shift) => (kept >>> shift) & 255).join('.')}/${v4Bits}`;
  }
  const groups = v6Of(address);
  if (!groups) return undefined;
  const kept = groups.map((group, at) => {
    const bits = Math.min(Math.max(v6Bits - at * 16, 0), 16);
    return group & (0xffff << (16 - bits)) & 0xffff;
  });
  return `${shortest(kept)}/${v6Bits}`;
}

function v4Of(address: string): number | undefined {
  const parts = address.split('.');
  if (parts.length !== 4 || !parts.every((part) => /^\d{1,3}$/.test(part) && Number(part) <= 255)) return undefined;
  return parts.reduce((value, part) => value * 256 + Number(part), 0);
}

/** The eight groups of an IPv6 address. */
function v6Of(address: string): readonly number[] | undefined {
  const withoutZone = address.split('%', 1)[0] ?? '';
  const halves = withoutZone.split('::');
  if (halves.length > 2 || !withoutZone.includes(':')) return undefined;
  const [head = [], tail = []] = halves.map(groupsOf);
  const missing = 8 - head.length - tail.length;
  if (halves.length === 1 ? missing !== 0 : missing < 1) return undefined;
  const groups = [...head, ...new Array<number>(missing).fill(0), ...tail];
  return groups.some(Number.isNaN) ? undefined : groups;
}

function groupsOf(half: string): readonly number[] {
  if (half === '') return [];
  return half.split(':').flatMap((group) => {
    const v4 = group.includes('.') ? v4Of(group) : undefined;
    if (v4 !== undefined) return [v4 >>> 16, v4 & 0xffff];
    return [/^[0-9a-fA-F]{1,4}$/.test(group) ? Number.parseInt(group, 16) : Number.NaN];
  });
}

/** Omits the first of the longest runs of zeros. @see https://www.rfc-editor.org/rfc/rfc5952 */
function shortest(groups: readonly number[]): string {
  let [from, length] = [-1, 1];
  for (let at = 0; at < groups.length; at++) {
    let end = at;
    while (groups[end] === 0) end++;
    if (end - at > length) [from, length] = [at, end - at];
    at = Math.max(at, end - 1);
  }
  const text = (some: readonly number[]): string => some.map((group) => group.toString(16)).join(':');
  return from < 0 ? text(groups) : `${text(groups.slice(0, from))}::${text(groups.slice(from + length))}`;
}
