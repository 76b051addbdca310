/** The bytes of a number. */
export const DOUBLE_BYTES = 8;
const FIRST_ROOM = 1_024;

/** Numbers in the script's format, little-endian doubles, in a reusable buffer. */
export class PackedNumbers {
  #bytes = Buffer.allocUnsafeSlow(FIRST_ROOM * DOUBLE_BYTES);
  /** V8 compiles its methods to single instructions, unlike those of `Buffer`. */
  #view = dataView(this.#bytes);
  length = 0;

  clear(): void {
    this.length = 0;
  }

  add(number: number): void {
    const at = this.length * DOUBLE_BYTES;
    if (at === this.#bytes.length) this.#grow();
    this.#view.setFloat64(at, number, true);
    this.length++;
  }

  addAll(numbers: readonly number[]): void {
    for (let at = 0; at < numbers.length; at++) this.add(numbers[at] as number); // in range
  }

  /** The numbers of a record. @param places  their order: see scripts/format.ts */
  addRecord<P extends object>(places: P, record: Readonly<Record<Exclude<keyof P, 'size'>, number>>): void {
    const numbers: Readonly<Record<string, number>> = record;
    for (const name in places) if (name !== 'size') this.add(numbers[name] as number); // it has each one
  }

  /** A copy of these numbers. */
  copy(): Buffer {
    return Buffer.from(this.#bytes.subarray(0, this.length * DOUBLE_BYTES));
  }

  /** A copy of these numbers, followed by others. */
  copyBefore(others: PackedNumbers): Buffer {
    const [own, length] = [this.length * DOUBLE_BYTES, others.length * DOUBLE_BYTES];
    const copy = Buffer.allocUnsafe(own + length);
    this.#bytes.copy(copy, 0, 0, own);
    if (length > 0) others.#bytes.copy(copy, own, 0, length);
    return copy;
  }

  #grow(): void {
    const larger = Buffer.allocUnsafeSlow(this.#bytes.length * 2);
    this.#bytes.copy(larger);
    this.#bytes = larger;
    this.#view = dataView(larger);
  }
}

export const dataView = (bytes: Buffer): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
