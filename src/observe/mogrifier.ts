import { createContext, Script } from 'node:vm';

/** Rewrites names that match a pattern, and adds tags. `$1` in name and tags refers to the pattern's first group. */
export interface Mogrifier {
  /** The label in the variable `DOG_STATSD_MOGRIFIER_<label>_PATTERN`. */
  readonly label: string;
  readonly pattern: RegExp;
  readonly name: string;
  readonly tags: ReadonlyMap<string, string>;
}

/** The name and tags of a statistic in a sink. */
export interface StatsdTarget {
  readonly name: string;
  readonly tags: ReadonlyMap<string, string>;
}

/** Mogrifiers, or the problems of the variables that define them. */
export type ParsedMogrifiers =
  | { readonly ok: true; readonly mogrifiers: readonly Mogrifier[] }
  | { readonly ok: false; readonly problems: readonly string[] };

/**
 * Reads the mogrifiers with these labels from envoyproxy/ratelimit's variables `DOG_STATSD_MOGRIFIER_<label>_PATTERN`,
 * `_NAME` and `_TAGS`. Patterns are JavaScript regular expressions; Go's syntax for named groups is accepted too.
 */
export function parseMogrifiers(
  labels: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): ParsedMogrifiers {
  const problems: string[] = [];
  const mogrifiers = labels.flatMap((label): readonly Mogrifier[] => {
    const variable = (part: string) => `DOG_STATSD_MOGRIFIER_${label}_${part}`;
    const required = (part: string): string => {
      const written = env[variable(part)] ?? '';
      if (written === '')
        problems.push(`${variable(part)} must be set, since USE_DOG_STATSD_MOGRIFIERS names ${label}`);
      return written;
    };
    const pattern = parsePattern(variable('PATTERN'), required('PATTERN'), problems);
    const name = required('NAME');
    const tags = parseTags(variable('TAGS'), env[variable('TAGS')] ?? '', problems);
    return [{ label, pattern, name, tags }];
  });
  return problems.length > 0 ? { ok: false, problems } : { ok: true, mogrifiers };
}

function parsePattern(variable: string, written: string, problems: string[]): RegExp {
  try {
    return new RegExp(fromGo(written), 'u');
  } catch (error) {
    const reason = error instanceof Error ? error.message : error;
    problems.push(`${variable} must be a regular expression, got '${written}': ${reason}`);
    return /(?:)/;
  }
}

/** Translates Go syntax: `(?P<name>`, and punctuation that is escaped without need. */
const fromGo = (pattern: string): string =>
  pattern
    .replaceAll(/\\([\s\S])/g, (escaped, of: string) =>
      /[!"#%&',:;<=>@_`~-]/.test(of) ? `\\x${of.charCodeAt(0).toString(16)}` : escaped,
    )
    .replaceAll('(?P<', '(?<');

function parseTags(variable: string, written: string, problems: string[]): ReadonlyMap<string, string> {
  const tags = written === '' ? [] : written.split(',').map((tag) => tag.split(':'));
  if (tags.some(({ length, 0: key, 1: value }) => length !== 2 || key === '' || value === ''))
    problems.push(`${variable} must be comma-separated key:value pairs, neither part empty, got '${written}'`);
  return new Map(tags.map(([key = '', value = '']) => [key, value]));
}

/** Time limit for matching one pattern against a batch of new names. */
const PATTERN_TIMEOUT_MS = 500;

/**
 * Runs in its own context, since only there it can be stopped: a pattern may take forever on a name that a caller
 * created.
 */
const matching = new Script(
  '{ const one = pattern, all = matches; for (const name of names) all.push(one.exec(name)); }',
);

/**
 * Creates the function that maps names by the first mogrifier whose pattern matches. A mogrifier whose pattern takes
 * too long is dropped.
 *
 * @param onTooSlow  called when a mogrifier is dropped
 */
export function createMogrify(
  mogrifiers: readonly Mogrifier[],
  onTooSlow: (mogrifier: Mogrifier) => void,
): (names: readonly string[]) => readonly StatsdTarget[] {
  const inUse = new Set(mogrifiers);
  return (names) => {
    const targets = new Map<string, StatsdTarget>();
    for (const mogrifier of inUse) {
      const open = names.filter((name) => !targets.has(name));
      if (open.length === 0) break;
      const matches = matchesOf(mogrifier.pattern, open);
      if (!matches) {
        inUse.delete(mogrifier);
        onTooSlow(mogrifier);
      }
      for (const [at, name] of open.entries()) {
        const match = matches?.[at];
        if (match) targets.set(name, rewritten(mogrifier, match));
      }
    }
    return names.map((name) => targets.get(name) ?? { name, tags: new Map() });
  };
}

/** Undefined if it takes too long. */
function matchesOf(pattern: RegExp, names: readonly string[]): readonly (RegExpExecArray | null)[] | undefined {
  const matches: (RegExpExecArray | null)[] = [];
  try {
    matching.runInContext(createContext({ pattern, names, matches }), { timeout: PATTERN_TIMEOUT_MS });
  } catch {
    return undefined; // only a timeout can throw here
  }
  return matches;
}

function rewritten({ name, tags }: Mogrifier, match: RegExpExecArray): StatsdTarget {
  const filled = (template: string) =>
    template.replaceAll(/\$(\d+)/g, (reference, group) =>
      Number(group) < match.length ? (match[Number(group)] ?? '') : reference,
    );
  return { name: filled(name), tags: new Map([...tags].map(([key, value]) => [key, filled(value)])) };
}
