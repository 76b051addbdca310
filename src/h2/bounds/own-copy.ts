/**
 * A copy in its own memory. `Buffer.from` would use a part of a pool, and keep the whole pool alive: 8 KiB, or 64 in
 * newer versions of Node.
 */
export function ownCopy(bytes: Uint8Array, from = 0, to = bytes.length): Buffer {
  const copy = Buffer.allocUnsafeSlow(to - from);
  copy.set(bytes.subarray(from, to));
  return copy;
}
