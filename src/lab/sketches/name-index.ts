import { isSameName, type TopName } from './top-name.ts';

const NONE = -1;
const LEAST_BUCKETS = 8;

/** Maps names to numbers: a hash table with chains, which avoids joining the parts of a name into one text. */
export class NameIndex {
  readonly #names: TopName[] = [];
  /** For each number, the next in its chain. */
  readonly #next: number[] = [];
  #buckets = new Int32Array(LEAST_BUCKETS).fill(NONE);

  get size(): number {
    return this.#names.length;
  }

  /** @returns -1 if it is not there */
  find(name: TopName): number {
    let number = this.#buckets[this.#bucketOf(name)] ?? NONE;
    while (number !== NONE && !isSameName(this.#nameAt(number), name)) number = this.#next[number] ?? NONE;
    return number;
  }

  /** Gives the name the next number. */
  add(name: TopName): number {
    const number = this.#names.length;
    if (number === this.#buckets.length) this.#grow();
    this.#names.push(name);
    this.#next.push(NONE);
    this.#link(number);
    return number;
  }

  /** Gives the number to another name. @returns the previous name */
  replace(number: number, name: TopName): TopName {
    const old = this.#nameAt(number);
    this.#unlink(number, old);
    this.#names[number] = name;
    this.#link(number);
    return old;
  }

  /** In the order of their numbers. */
  names(): readonly TopName[] {
    return this.#names;
  }

  #nameAt(number: number): TopName {
    return this.#names[number] as TopName; // one for each number
  }

  #bucketOf({ hash }: TopName): number {
    return (hash ^ (hash >>> 15)) & (this.#buckets.length - 1);
  }

  #link(number: number): void {
    const bucket = this.#bucketOf(this.#nameAt(number));
    this.#next[number] = this.#buckets[bucket] ?? NONE;
    this.#buckets[bucket] = number;
  }

  #unlink(number: number, name: TopName): void {
    const bucket = this.#bucketOf(name);
    const after = this.#next[number] ?? NONE;
    let at = this.#buckets[bucket] ?? NONE;
    if (at === number) {
      this.#buckets[bucket] = after;
      return;
    }
    while (this.#next[at] !== number) at = this.#next[at] as number; // it is in this chain
    this.#next[at] = after;
  }

  #grow(): void {
    this.#buckets = new Int32Array(2 * this.#buckets.length).fill(NONE);
    for (let number = 0; number < this.#names.length; number++) this.#link(number);
  }
}
