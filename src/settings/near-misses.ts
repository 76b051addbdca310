import { editsBetween } from '../nearest.ts';

/** The environment as Node gives it. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Shorter names are within one or two edits of each other by chance. */
const MIN_LENGTH_FOR_ONE_EDIT = 6;
const MIN_LENGTH_FOR_TWO_EDITS = 12;

/** Warnings, one text each, about unknown variables whose name is close to that of a setting that is not set. */
export function nearMisses(env: Environment, settings: readonly string[]): readonly string[] {
  const known = new Set(settings);
  const missing = settings.filter((name) => env[name] === undefined);
  return Object.keys(env).flatMap((name) => {
    if (known.has(name) || env[name] === undefined) return [];
    const meant = nearestOf(name, missing);
    return meant === undefined ? [] : [`${name} is set, but there is no such setting; did you mean ${meant}?`];
  });
}

function nearestOf(name: string, settings: readonly string[]): string | undefined {
  const plain = normalized(name);
  const allowed = plain.length >= MIN_LENGTH_FOR_TWO_EDITS ? 2 : plain.length >= MIN_LENGTH_FOR_ONE_EDIT ? 1 : 0;
  let best: string | undefined;
  let fewest = allowed + 1;
  for (const setting of settings) {
    const other = normalized(setting);
    if (Math.abs(other.length - plain.length) >= fewest) continue;
    const edits = editsBetween(plain, other);
    if (edits >= fewest) continue;
    best = setting;
    fewest = edits;
  }
  return best;
}

const normalized = (name: string): string => name.toUpperCase().replaceAll(/[^A-Z0-9]/g, '');
