/** Minimum size of kept buffers; shorter ones take little memory and are allocated at their exact length. */
const MIN_KEPT_BYTES = 1_024;
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

const NO_BYTES: Buffer = Buffer.alloc(0);

/** Initial buffer of input that arrives in parts. */
const MIN_JOINED_BYTES = 1_024;

/** Input that arrives in parts, joined in a buffer that doubles as it grows, since its announced length may never come. */
export class JoinedParts {
  readonly #minBytes: number;
  bytes: Buffer = NO_BYTES;
  length = 0;

  /** @param minBytes  size of the first buffer, if so much may come */
  constructor(minBytes = MIN_JOINED_BYTES) {
    this.#minBytes = minBytes;
  }

  /**
   * Adds a part, up to a total length.
   *
   * @returns the position in the part behind what was added
   */
  add(part: Buffer, from: number, to: number, most: number): number {
    const end = Math.min(to, from + most - this.length);
    const length = this.length + end - from;
    if (length > this.bytes.length) {
      const smaller = this.bytes;
      this.bytes = takeBuffer(Math.max(length, Math.min(most, Math.max(smaller.length * 2, this.#minBytes))));
      smaller.copy(this.bytes, 0, 0, this.length);
      giveBack(smaller);
    }
    part.copy(this.bytes, this.length, from, end);
    this.length = length;
    return end;
  }

  /** Gives the buffer back, whose contents must not be used any more. */
  release(): void {
    giveBack(this.bytes);
    this.bytes = NO_BYTES;
    this.length = 0;
  }
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
