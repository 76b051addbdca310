/** Where in a rule file, or in a resource of a control plane, something stands. */
export interface Place {
  /** What messages call the file or the resource. */
  readonly file: string;
  /** Counted from 1; undefined in a resource, which has no lines. */
  readonly line: number | undefined;
  /** `descriptors[2].rate_limit.unit`; empty for the file itself. */
  readonly path: string;
}

/** What is wrong with a rule file, or looks wrong. An error keeps the rules from loading; a warning does not. */
export interface Problem extends Place {
  readonly severity: 'error' | 'warning';
  /** The thing, what was wanted and what came. */
  readonly message: string;
}

/** One line for people: `rules.yaml:12: descriptors[2].rate_limit.unit: invalid rate limit unit 'foo', wanted …` */
export function formatProblem({ file, line, path, severity, message }: Problem): string {
  const place = line === undefined ? file : `${file}:${line}`;
  return `${place}: ${severity === 'warning' ? 'warning: ' : ''}${path === '' ? '' : `${path}: `}${message}`;
}

/** The path of a key of a block. */
export const pathOfKey = (block: string, key: string): string => (block === '' ? key : `${block}.${key}`);
