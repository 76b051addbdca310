import { TextDistance } from '../base/nearest.ts';

/** The environment, as Node provides it. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Minimum lengths of compared names; shorter ones may be within one or two edits of each other by chance. */
const MIN_LENGTH_FOR_ONE_EDIT = 6;
const MIN_LENGTH_FOR_TWO_EDITS = 12;

/** Warnings, one text each, about unknown variables whose name is close to that of a setting that is not set. */
export function nearMisses(env: Environment, settings: readonly string[]): readonly string[] {
  const known = new Set(settings);
  const missing = settings
    .filter((name) => env[name] === undefined)
    .map((name): Known => ({ name, plain: normalized(name) }));
  return Object.keys(env).flatMap((name) => {
    if (known.has(name) || env[name] === undefined) return [];
    const meant = findNearest(normalized(name), missing);
    return meant === undefined ? [] : [`${name} is set, but there is no such setting; did you mean ${meant}?`];
  });
}

interface Known {
  readonly name: string;
  readonly plain: string;
}

function findNearest(plain: string, settings: readonly Known[]): string | undefined {
  const distance = new TextDistance(plain);
  let fewest = plain.length >= MIN_LENGTH_FOR_TWO_EDITS ? 3 : plain.length >= MIN_LENGTH_FOR_ONE_EDIT ? 2 : 1;
  let best: string | undefined;
  for (const setting of settings) {
    const edits = distance.to(setting.plain, fewest); // returns at once if the lengths differ by more
    if (edits >= fewest) continue;
    best = setting.name;
    fewest = edits;
  }
  return best;
}

const normalized = (name: string): string => name.toUpperCase().replaceAll(/[^A-Z0-9]/g, '');
