import { editsBetween } from '../nearest.ts';

/** The environment as Node gives it. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Shorter names are within one or two edits of each other by chance. */
const MIN_LENGTH_FOR_ONE_EDIT = 6;
const MIN_LENGTH_FOR_TWO_EDITS = 12;

/** Warnings, one text each, about unknown variables whose name is close to that of a setting that is not set. */
export function nearMisses(env: Environment, settings: readonly string[]): readonly string[] {
  const known = new Set(settings);
  const missing = settings
    .filter((name) => env[name] === undefined)
    .map((name) => ({ name, plain: normalized(name) }));
  return Object.keys(env).flatMap((name) => {
    if (known.has(name) || env[name] === undefined) return [];
    const meant = nearestOf(name, missing);
    return meant === undefined ? [] : [`${name} is set, but there is no such setting; did you mean ${meant}?`];
  });
}

/** @param settings  normalized once: this runs at each start */
function nearestOf(
  name: string,
  settings: readonly { readonly name: string; readonly plain: string }[],
): string | undefined {
  const plain = normalized(name);
  const allowed = plain.length >= MIN_LENGTH_FOR_TWO_EDITS ? 2 : plain.length >= MIN_LENGTH_FOR_ONE_EDIT ? 1 : 0;
  let best: string | undefined;
  let fewest = allowed + 1;
  for (const setting of settings) {
    if (Math.abs(setting.plain.length - plain.length) >= fewest || !mayBeNear(plain, setting.plain, fewest)) continue;
    const edits = editsBetween(plain, setting.plain);
    if (edits >= fewest) continue;
    best = setting.name;
    fewest = edits;
  }
  return best;
}

/** An edit adds, removes or replaces one character of `one`, or swaps two: so many of its characters must be in `other`, in any order. */
function mayBeNear(one: string, other: string, edits: number): boolean {
  let rest = other;
  let unmatched = 0;
  for (const character of one) {
    const at = rest.indexOf(character);
    if (at === -1 && ++unmatched >= edits) return false;
    if (at !== -1) rest = rest.slice(0, at) + rest.slice(at + 1);
  }
  return true;
}

const normalized = (name: string): string => name.toUpperCase().replaceAll(/[^A-Z0-9]/g, '');
