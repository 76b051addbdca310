import { editsBetween } from '../base/nearest.ts';

/** The environment, as Node provides it. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Minimum lengths of compared names; shorter ones may be within one or two edits of each other by chance. */
const MIN_LENGTH_FOR_ONE_EDIT = 6;
const MIN_LENGTH_FOR_TWO_EDITS = 12;

/** Warnings, one text each, about unknown variables whose name is close to that of a setting that is not set. */
export function nearMisses(env: Environment, settings: readonly string[]): readonly string[] {
  const known = new Set(settings);
  const missing = byLength(settings.filter((name) => env[name] === undefined));
  return Object.keys(env).flatMap((name) => {
    if (known.has(name) || env[name] === undefined) return [];
    const meant = findNearest(name, missing);
    return meant === undefined ? [] : [`${name} is set, but there is no such setting; did you mean ${meant}?`];
  });
}

/** Names by the length of their normalized form, so that names of other lengths are skipped at each start. */
type NamesByLength = ReadonlyMap<number, readonly Known[]>;

interface Known {
  readonly name: string;
  readonly plain: string;
  /** Computed when needed, as at most starts no unknown variable has a similar length. */
  characters: number | undefined;
}

function byLength(names: readonly string[]): NamesByLength {
  const found = new Map<number, Known[]>();
  for (const name of names) {
    const plain = normalized(name);
    const same = found.get(plain.length);
    const known: Known = { name, plain, characters: undefined };
    if (same) same.push(known);
    else found.set(plain.length, [known]);
  }
  return found;
}

function findNearest(name: string, settings: NamesByLength): string | undefined {
  const plain = normalized(name);
  const characters = characterSet(plain);
  const allowed = plain.length >= MIN_LENGTH_FOR_TWO_EDITS ? 2 : plain.length >= MIN_LENGTH_FOR_ONE_EDIT ? 1 : 0;
  let best: string | undefined;
  let fewest = allowed + 1;
  for (let length = plain.length - allowed; length <= plain.length + allowed; length++) {
    for (const setting of settings.get(length) ?? []) {
      setting.characters ??= characterSet(setting.plain);
      if (!mayBeNear(characters, setting.characters, allowed)) continue;
      const edits = editsBetween(plain, setting.plain);
      if (edits >= fewest) continue;
      best = setting.name;
      fewest = edits;
    }
  }
  return best;
}

/** Set of characters in a text as bits, of which digits share some. */
function characterSet(text: string): number {
  let bits = 0;
  for (let at = 0; at < text.length; at++) bits |= 1 << text.charCodeAt(at); // by the lowest five bits
  return bits;
}

/**
 * Whether two texts may be near by a bound on their characters. An edit adds, removes or replaces one character, or
 * swaps two, so texts that differ in more characters need more edits.
 */
const mayBeNear = (one: number, other: number, edits: number): boolean =>
  bitsIn(one & ~other) <= edits && bitsIn(other & ~one) <= edits;

/** @see https://graphics.stanford.edu/~seander/bithacks.html#CountBitsSetParallel */
function bitsIn(bits: number): number {
  const pairs = bits - ((bits >>> 1) & 0x5555_5555);
  const nibbles = (pairs & 0x3333_3333) + ((pairs >>> 2) & 0x3333_3333);
  return Math.imul((nibbles + (nibbles >>> 4)) & 0x0f0f_0f0f, 0x0101_0101) >>> 24;
}

const normalized = (name: string): string => name.toUpperCase().replaceAll(/[^A-Z0-9]/g, '');
