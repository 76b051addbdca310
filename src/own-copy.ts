/**
 * A copy in memory of its own. `Buffer.from` would take a part of a pool, and keep the whole pool for as long: 8 KiB,
 * or 64 on newer versions of Node.
 */
export function ownCopy(bytes: Uint8Array, from = 0, to = bytes.length): Buffer {
  const copy = Buffer.allocUnsafeSlow(to - from);
  copy.set(bytes.subarray(from, to));
  return copy;
}
