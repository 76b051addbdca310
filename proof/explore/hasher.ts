const number = new Float64Array(1);
const words = new Uint32Array(number.buffer);

/** Fields that never change, or that other fields determine. */
const constant = new Set(['limit', 'policy', 'backend', 'debit', '_options', 'counts', 'shared']);

/** A 64-bit hash of values that are added one by one; two different sequences have the same hash by chance only. */
export class Hasher {
  low = 0;
  high = 0;
  readonly #seen = new Map<object, number>();

  begin(): this {
    this.low = 0x9e3779b9 | 0;
    this.high = 0x85ebca6b | 0;
    if (this.#seen.size > 0) this.#seen.clear();
    return this;
  }

  word(value: number): void {
    let low = Math.imul(this.low ^ value, 0xcc9e2d51);
    low = (low << 15) | (low >>> 17);
    let high = Math.imul((this.high + value) | 0, 0x1b873593) ^ low;
    high = (high << 13) | (high >>> 19);
    this.low = (Math.imul(low, 5) + high) | 0;
    this.high = (Math.imul(high, 0xc2b2ae35) + 0xe6546b64) | 0;
  }

  number(value: number): void {
    if ((value | 0) === value) return this.word(value);
    number[0] = value;
    this.word(words[0] ?? 0);
    this.word(words[1] ?? 0);
    this.word(0x5bd1e995);
  }

  numbers(values: readonly number[]): void {
    this.word(values.length);
    for (let at = 0; at < values.length; at++) this.number(values[at] ?? 0);
  }

  text(value: string): void {
    this.word(value.length);
    for (let at = 0; at < value.length; at++) this.word(value.charCodeAt(at));
  }

  /** Adds data with all that it contains, except functions and promises. */
  value(value: unknown): void {
    switch (typeof value) {
      case 'number':
        return this.number(value);
      case 'string':
        return this.text(value);
      case 'boolean':
        return this.word(value ? 0x51 : 0x52);
      case 'object':
        return value === null ? this.word(0x53) : this.#object(value);
      default:
        return this.word(0x54);
    }
  }

  #object(value: object): void {
    const seen = this.#seen.get(value);
    if (seen !== undefined) return this.word(0x61 + seen);
    this.#seen.set(value, this.#seen.size);
    if (value instanceof Map) {
      this.word(value.size);
      for (const [key, one] of value) {
        this.value(key);
        this.value(one);
      }
    } else if (value instanceof Set || Array.isArray(value)) {
      this.word(value instanceof Set ? value.size : value.length);
      for (const one of value) this.value(one);
    } else if (!(value instanceof Promise))
      for (const [name, one] of Object.entries(value))
        if (!constant.has(name) && typeof one !== 'function') this.value(one);
    this.word(0x62);
  }
}
