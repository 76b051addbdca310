const START_BYTES = 4_096;
const MAX_VARINT_BYTES = 10;

/**
 * Writes protobuf messages, each into the same buffer. Fields with their default value are omitted. Nested messages
 * reserve one octet for their length prefix, and are moved if the prefix needs more.
 */
export class ProtoWriter {
  bytes = Buffer.allocUnsafeSlow(START_BYTES);
  length = 0;

  /** @param headroom  octets to leave free before the message */
  start(headroom: number): void {
    this.length = headroom;
  }

  uint32Field(field: number, value: number): void {
    if (value === 0) return;
    this.#room(2 * MAX_VARINT_BYTES);
    this.bytes[this.length++] = field << 3;
    let rest = value;
    for (; rest > 0x7f; rest >>>= 7) this.bytes[this.length++] = rest | 0x80;
    this.bytes[this.length++] = rest;
  }

  /** A number of at most 7 bits, including zero, as a field of a `oneof` is written even with its default value. */
  smallField(field: number, value: number): void {
    this.#room(2);
    this.bytes[this.length++] = field << 3;
    this.bytes[this.length++] = value;
  }

  /** A double, including zero. */
  doubleField(field: number, value: number): void {
    this.#room(9);
    this.bytes[this.length++] = (field << 3) | 1;
    this.length = this.bytes.writeDoubleLE(value, this.length);
  }

  /** An integer from 0 to 2^53. */
  uintField(field: number, value: number): void {
    if (value <= 0x7fff_ffff) return this.uint32Field(field, value);
    this.#room(2 * MAX_VARINT_BYTES);
    this.bytes[this.length++] = field << 3;
    let rest = value;
    for (; rest > 0x7f; rest = Math.floor(rest / 128)) this.bytes[this.length++] = (rest % 128) | 0x80;
    this.bytes[this.length++] = rest;
  }

  textField(field: number, text: string): void {
    if (text === '') return;
    const start = this.begin(field);
    this.#room(text.length * 3);
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at);
      if (code > 0x7f) {
        this.length = start + this.bytes.write(text, start, 'utf8'); // starts again, as the string is not ASCII
        break;
      }
      this.bytes[this.length++] = code;
    }
    this.end(start);
  }

  bytesField(field: number, bytes: Buffer): void {
    const start = this.begin(field);
    this.#room(bytes.length);
    this.length += bytes.copy(this.bytes, this.length);
    this.end(start);
  }

  /** Begins a nested message. @returns its start, for `end` */
  begin(field: number): number {
    this.#room(2);
    this.bytes[this.length] = (field << 3) | 2;
    this.length += 2;
    return this.length;
  }

  end(start: number): void {
    const size = this.length - start;
    if (size <= 0x7f) {
      this.bytes[start - 1] = size;
      return;
    }
    let extra = 0;
    for (let rest = size; rest > 0x7f; rest >>>= 7) extra++;
    this.#room(extra);
    this.bytes.copyWithin(start + extra, start, this.length);
    this.length += extra;
    let at = start - 1;
    for (let rest = size; ; rest >>>= 7) {
      this.bytes[at++] = rest > 0x7f ? rest | 0x80 : rest;
      if (rest <= 0x7f) return;
    }
  }

  #room(needed: number): void {
    if (this.length + needed <= this.bytes.length) return;
    const larger = Buffer.allocUnsafeSlow((this.length + needed) * 2);
    this.bytes.copy(larger, 0, 0, this.length);
    this.bytes = larger;
  }
}
