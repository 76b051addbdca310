/**
 * The name that a mistyped one most likely means, or undefined. It is equal except for case, blanks and punctuation, or
 * the only name that it abbreviates, or the one with the fewest edits.
 *
 * @example nearest('requestsPerUnit', ['unit', 'requests_per_unit']) is 'requests_per_unit'
 */
export function nearest(written: string, names: readonly string[]): string | undefined {
  const plain = normalized(written);
  if (plain === '' || plain.length > MAX_LENGTH) return undefined;
  const same = names.find((name) => normalized(name) === plain);
  if (same !== undefined) return same;
  const abbreviated = names.filter((name) => normalized(name).startsWith(plain));
  if (abbreviated.length > 0) return abbreviated.length === 1 ? abbreviated[0] : undefined;
  let best: string | undefined;
  let fewest = Math.max(1, Math.floor(plain.length * MAX_EDITS_PER_CHARACTER)) + 1;
  for (const name of names) {
    const edits = editsBetween(plain, normalized(name));
    if (edits >= fewest || edits >= plain.length) continue;
    best = name;
    fewest = edits;
  }
  return best;
}

const MAX_EDITS_PER_CHARACTER = 0.3;
const MAX_LENGTH = 64;

const normalized = (name: string): string => name.toLowerCase().replace(/[^a-z0-9*]/g, '');

/** Number of insertions, deletions, replacements and swaps of neighbours (optimal string alignment). */
export function editsBetween(one: string, other: string): number {
  let beforeLast: readonly number[] = [];
  let last: readonly number[] = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (let row = 1; row <= one.length; row++) {
    const current = [row];
    for (let column = 1; column <= other.length; column++) {
      const isSame = one[row - 1] === other[column - 1];
      let edits = Math.min(
        (last[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + (isSame ? 0 : 1),
      );
      const isSwapped = column > 1 && one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1];
      if (isSwapped) edits = Math.min(edits, (beforeLast[column - 2] ?? 0) + 1);
      current.push(edits);
    }
    beforeLast = last;
    last = current;
  }
  return last[other.length] ?? 0;
}

/** The number of characters that are compared; longer texts are cut. */
export const MAX_COMPARED_CHARACTERS = 48;

const ASCII_CODES = 128;
const WORD_BITS = 32;
const WORD_MAX = 0xffff_ffff;

/**
 * Counts the edits between one text and many others, as `editsBetween` does. It computes a whole column of the table at a
 * time, as the bits of two words, so that each character of the other text costs the same few operations.
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
