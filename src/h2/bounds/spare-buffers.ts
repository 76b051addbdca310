/** Shorter buffers are allocated at their exact length and not kept: even many of them take little memory. */
const MIN_KEPT_BYTES = 2_048;
const MAX_SPARE_BYTES = 16 * 1024 * 1024;
/** All spare buffers are dropped this long after the first one was kept, so that the memory for a flood is released. */
const KEPT_MS = 1_000;

/** By size. */
const spare = new Map<number, Buffer[]>();
let spareBytes = 0;
let timer: NodeJS.Timeout | undefined;

/**
 * A buffer of this length or up to a quarter more, for input that arrives in parts; its octets are undefined. Call
 * `giveBack` when it is no longer used: V8 leaves tens of megabytes of unreachable buffers uncollected, regardless of
 * the heap's size, so a flood of input that is dropped again would fill memory.
 */
export function takeBuffer(length: number): Buffer {
  const size = sizeFor(length);
  const buffer = spare.get(size)?.pop();
  if (!buffer) return Buffer.allocUnsafeSlow(size);
  spareBytes -= size;
  return buffer;
}

/** @param buffer  from `takeBuffer`; it must not be used any more */
export function giveBack(buffer: Buffer): void {
  const size = buffer.length;
  if (size < MIN_KEPT_BYTES || spareBytes + size > MAX_SPARE_BYTES) return;
  const equals = spare.get(size);
  if (equals) equals.push(buffer);
  else spare.set(size, [buffer]);
  spareBytes += size;
  if (!timer) timer = setTimeout(dropAll, KEPT_MS).unref();
}

function dropAll(): void {
  timer = undefined;
  spare.clear();
  spareBytes = 0;
}

/** Four sizes per power of two, so that most buffers fit the next input. */
function sizeFor(length: number): number {
  if (length < MIN_KEPT_BYTES) return length;
  const step = 2 ** (29 - Math.clz32(length - 1)); // a quarter of the next lower power of two
  return Math.ceil(length / step) * step;
}
