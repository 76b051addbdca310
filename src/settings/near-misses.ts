import { TextDistance } from '../base/nearest.ts';

/** The environment, as Node provides it. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Minimum lengths of compared names; shorter ones may be within one or two edits of each other by chance. */
const MIN_LENGTH_FOR_ONE_EDIT = 6;
const MIN_LENGTH_FOR_TWO_EDITS = 12;

/** Warnings, one text each, about unknown variables whose name is close to that of a setting that is not set, or has its words. */
export function nearMisses(env: Environment, settings: readonly string[]): readonly string[] {
  const known = settings.map((name): Known => ({ name, plain: normalized(name), words: wordsOf(name) }));
  const missing = known.filter(({ name }) => env[name] === undefined);
  return Object.keys(env).flatMap((name) => {
    if (settings.includes(name) || env[name] === undefined) return [];
    const meant = findNearest(normalized(name), missing) ?? findByWords(name, known);
    if (meant === undefined || env[meant] !== undefined) return [];
    return [`${name} is set, but there is no such setting; did you mean ${meant}?`];
  });
}

interface Known {
  readonly name: string;
  readonly plain: string;
  readonly words: ReadonlySet<string>;
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

/** Words by which other programs name the same thing; an empty word says nothing. */
const synonyms: Readonly<Record<string, string>> = {
  ...{ PASS: 'AUTH', PASSWORD: 'AUTH', HOST: 'URL', ADDR: 'URL', ADDRESS: 'URL', ENDPOINT: 'URL' },
  ...{ HTTP: '', USE: '', ENABLE: '', ENABLED: '', PATH: '', FILE: '', DIR: '', DIRECTORY: '' },
};

const wordsOf = (name: string): ReadonlySet<string> =>
  new Set(
    name
      .toUpperCase()
      .split(/[^A-Z0-9]+/)
      .map((word) => synonyms[word] ?? word)
      .filter((word) => word !== ''),
  );

/** The setting of the same words, else the only one with all these words, at least two, and one more. */
function findByWords(name: string, settings: readonly Known[]): string | undefined {
  const words = wordsOf(name);
  const having = settings.filter((one) => [...words].every((word) => one.words.has(word)));
  const same = words.size > 0 ? having.find((one) => one.words.size === words.size) : undefined;
  if (same) return same.name;
  const [wider, another] = words.size < 2 ? [] : having.filter((one) => one.words.size === words.size + 1);
  return another ? undefined : wider?.name;
}
