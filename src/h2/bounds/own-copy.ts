/** A copy in its own memory. `Buffer.from` would take it from a pool and keep all 8 KiB (64 in newer Node) alive. */
export function ownCopy(bytes: Uint8Array, from = 0, to = bytes.length): Buffer {
  const copy = Buffer.allocUnsafeSlow(to - from);
  copy.set(bytes.subarray(from, to));
  return copy;
}
