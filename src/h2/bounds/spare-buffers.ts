/** Minimum size of kept buffers; shorter ones take little memory and are allocated at their exact length. */
const MIN_KEPT_BYTES = 2_048;
const MAX_SPARE_BYTES = 16 * 1024 * 1024;
/** Time after which all spare buffers are dropped, so that a flood's memory is released. */
const KEPT_MS = 1_000;

const spare = new Map<number, Buffer[]>();
let spareBytes = 0;
let timer: NodeJS.Timeout | undefined;

/**
 * A buffer of this length or up to a quarter more, with undefined contents, for input that arrives in parts. Pass it to
 * `giveBack` after use. V8 leaves tens of megabytes of unreachable buffers uncollected whatever the heap's size, so a
 * flood of dropped input would otherwise fill memory.
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
