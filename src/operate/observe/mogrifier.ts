import type { RE2JS } from 're2js';

/** Rewrites names that match a pattern, and adds tags. `$1` in name and tags refers to the pattern's first group. */
export interface Mogrifier {
  /** The label in the variable `DOG_STATSD_MOGRIFIER_<label>_PATTERN`. */
  readonly label: string;
  readonly pattern: RE2JS;
  readonly name: string;
  readonly tags: ReadonlyMap<string, string>;
}

/** Mogrifiers, or the problems of the variables that define them. */
type ParsedMogrifiers =
  | { readonly ok: true; readonly mogrifiers: readonly Mogrifier[] }
  | { readonly ok: false; readonly problems: readonly string[] };

/** Compiles a pattern in Go's syntax; throws if it is invalid. Matching takes time proportional to the text. */
export type CompilePattern = (written: string) => RE2JS;

/** Loads Go's regular expressions (RE2), which only mogrifiers need. */
export async function loadPatterns(): Promise<CompilePattern> {
  const { RE2JS } = await import('re2js');
  return (written) => RE2JS.compile(written);
}

/** Reads the mogrifiers with these labels from `DOG_STATSD_MOGRIFIER_<label>_PATTERN`, `_NAME` and `_TAGS`. */
export function parseMogrifiers(
  labels: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  compile: CompilePattern,
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
    const pattern = compileOrReport(required('PATTERN'));
    const name = required('NAME');
    const tags = parseTags(variable('TAGS'), env[variable('TAGS')] ?? '', problems);
    return pattern ? [{ label, pattern, name, tags }] : [];

    function compileOrReport(written: string): RE2JS | undefined {
      try {
        return compile(written);
      } catch (error) {
        const reason = error instanceof Error ? error.message : error;
        problems.push(`${variable('PATTERN')} must be a regular expression, got '${written}': ${reason}`);
        return undefined;
      }
    }
  });
  return problems.length > 0 ? { ok: false, problems } : { ok: true, mogrifiers };
}

function parseTags(variable: string, written: string, problems: string[]): ReadonlyMap<string, string> {
  const tags = written === '' ? [] : written.split(',').map((tag) => tag.split(':'));
  if (tags.some(({ length, 0: key, 1: value }) => length !== 2 || key === '' || value === ''))
    problems.push(`${variable} must be comma-separated key:value pairs, neither part empty, got '${written}'`);
  return new Map(tags.map(([key = '', value = '']) => [key, value]));
}
