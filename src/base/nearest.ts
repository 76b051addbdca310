import { RequestWork } from './request-work.ts';

/**
 * The name that a mistyped one most likely means, or undefined. It is equal except for case, blanks and punctuation, or
 * the only name that it abbreviates, or the one with the fewest edits.
 *
 * @example nearest('requestsPerUnit', ['unit', 'requests_per_unit']) is 'requests_per_unit'
 */
export function nearest(written: string, names: readonly string[]): string | undefined {
  const plain = normalized(written);
  if (plain === '' || plain.length > MAX_COMPARED_CHARACTERS) return undefined;
  const same = names.find((name) => normalized(name) === plain);
  if (same !== undefined) return same;
  const abbreviated = names.filter((name) => normalized(name).startsWith(plain));
  if (abbreviated.length > 0) return abbreviated.length === 1 ? abbreviated[0] : undefined;
  let best: string | undefined;
  let fewest = Math.max(1, Math.floor(plain.length * MAX_EDITS_PER_CHARACTER)) + 1;
  const distance = new TextDistance(plain);
  for (const name of names) {
    const edits = distance.to(normalized(name), fewest);
    if (edits >= fewest || edits >= plain.length) continue;
    best = name;
    fewest = edits;
  }
  return best;
}

const MAX_EDITS_PER_CHARACTER = 0.3;

const normalized = (name: string): string => name.toLowerCase().replace(/[^a-z0-9*]/g, '');

/** The number of characters that are compared; longer texts are cut. */
const MAX_COMPARED_CHARACTERS = 48;

const ASCII_CODES = 128;
const WORD_BITS = 32;
const WORD_MAX = 0xffff_ffff;

/**
 * Counts the edits between one text and many others: insertions, deletions, replacements and swaps of neighbours
 * (optimal string alignment). It computes a whole column of the table at a time, as the bits of two words, so that each
 * character of the other text costs the same few operations.
 *
 * @see https://doi.org/10.1007/3-540-36078-6_15  "Bit-parallel approximate string matching with transposition"
 */
export class TextDistance {
  /** The positions of each character in the text, as bits, by the character's number; number 0 occurs nowhere. */
  readonly #lowPlaces: number[] = [0];
  readonly #highPlaces: number[] = [0];
  readonly #asciiNumbers = new Uint8Array(ASCII_CODES);
  readonly #otherNumbers = new Map<number, number>();
  readonly #length: number;

  constructor(text: string) {
    this.#length = Math.min(text.length, MAX_COMPARED_CHARACTERS);
    for (let at = 0; at < this.#length; at++) {
      const code = text.charCodeAt(at);
      const number = this.#characterNumber(code) || this.#add(code);
      const places = at < WORD_BITS ? this.#lowPlaces : this.#highPlaces;
      places[number] = (places[number] ?? 0) | (1 << at); // shift counts are modulo 32
    }
  }

  #characterNumber(code: number): number {
    return (code < ASCII_CODES ? this.#asciiNumbers[code] : this.#otherNumbers.get(code)) ?? 0;
  }

  #add(code: number): number {
    const number = this.#lowPlaces.push(0) - 1;
    this.#highPlaces.push(0);
    if (code < ASCII_CODES) this.#asciiNumbers[code] = number;
    else this.#otherNumbers.set(code, number);
    return number;
  }

  /** The number of edits to the other text; `most` if it is at least that. */
  to(other: string, most: number): number {
    const length = Math.min(other.length, MAX_COMPARED_CHARACTERS);
    if (Math.abs(this.#length - length) >= most) return most;
    if (this.#length === 0) return length;
    const isLastHigh = this.#length > WORD_BITS;
    const lastBit = 1 << (this.#length - 1);
    let edits = this.#length;
    // names as in the paper: vertical differences of +1 and -1, and zeros on the diagonal, low and high word
    let [vpLow, vpHigh, vnLow, vnHigh, d0Low, d0High] = [-1, -1, 0, 0, 0, 0];
    let [previousLow, previousHigh] = [0, 0];
    for (let at = 0; at < length; at++) {
      const number = this.#characterNumber(other.charCodeAt(at));
      const low = this.#lowPlaces[number] ?? 0;
      const high = this.#highPlaces[number] ?? 0;
      const mayBeSwapped = ~d0Low & low;
      const swappedLow = (mayBeSwapped << 1) & previousLow;
      const swappedHigh = (((~d0High & high) << 1) | (mayBeSwapped >>> 31)) & previousHigh;
      const sum = ((low & vpLow) >>> 0) + (vpLow >>> 0);
      const carry = sum > WORD_MAX ? 1 : 0;
      d0Low = (sum ^ vpLow) | low | vnLow | swappedLow;
      d0High = (((high & vpHigh) + vpHigh + carry) ^ vpHigh) | high | vnHigh | swappedHigh;
      const hpLow = vnLow | ~(d0Low | vpLow);
      const hpHigh = vnHigh | ~(d0High | vpHigh);
      const hnLow = d0Low & vpLow;
      const hnHigh = d0High & vpHigh;
      if (((isLastHigh ? hpHigh : hpLow) & lastBit) !== 0) edits++;
      else if (((isLastHigh ? hnHigh : hnLow) & lastBit) !== 0) edits--;
      if (edits - (length - 1 - at) >= most) return most; // each remaining character saves at most one edit
      const shiftedLow = (hpLow << 1) | 1;
      const shiftedHigh = (hpHigh << 1) | (hpLow >>> 31);
      vpLow = (hnLow << 1) | ~(d0Low | shiftedLow);
      vpHigh = (hnHigh << 1) | (hnLow >>> 31) | ~(d0High | shiftedHigh);
      vnLow = shiftedLow & d0Low;
      vnHigh = shiftedHigh & d0High;
      previousLow = low;
      previousHigh = high;
    }
    return edits;
  }
}

/** Maximum number of texts that one search compares. */
const MAX_OF_A_SEARCH = 2_000;
/** Maximum number of texts that the searches for one descriptor compare in total, a few milliseconds of work. */
const MAX_OF_A_DESCRIPTOR = 8_000;

/** Finds likely corrections of misspelt texts. The work of all searches is bounded; beyond it, they find nothing. */
export class NearestTexts {
  #left: number;
  readonly work: RequestWork;

  /** @param mostCompared  the maximum number of texts that all searches compare in total */
  constructor(mostCompared = MAX_OF_A_DESCRIPTOR, work = new RequestWork()) {
    this.#left = mostCompared;
    this.work = work;
  }

  get isUsedUp(): boolean {
    return this.#left <= 0;
  }

  /** Uses up one comparison, for work that costs as much. @returns whether one was left */
  take(): boolean {
    return this.#left-- > 0;
  }

  /** The items whose text is most similar to the given one, in this order. Case and punctuation hardly count. */
  find<T>(to: string, items: Iterable<T>, text: (item: T) => string, count: number): readonly T[] {
    const found: { readonly item: T; readonly distance: number }[] = [];
    const first = to.slice(0, MAX_COMPARED_CHARACTERS);
    const edits = new TextDistance(plain(first));
    let compared = 0;
    for (const item of items) {
      if (compared++ >= MAX_OF_A_SEARCH || !this.take()) break;
      const most = found.length < count ? Number.POSITIVE_INFINITY : (found.at(-1)?.distance ?? 0);
      const second = text(item).slice(0, MAX_COMPARED_CHARACTERS);
      const distance = edits.to(plain(second), most) + (first === second ? 0 : 0.5); // 0.5: case, punctuation
      if (distance >= most) continue;
      if (found.length === count) found.pop();
      const at = found.findIndex((one) => one.distance > distance);
      found.splice(at < 0 ? found.length : at, 0, { item, distance });
    }
    return found.map(({ item }) => item);
  }
}

const plain = (text: string): string => text.toLowerCase().replace(/[-_. ]/g, '');
