/** Where in a rule file something stands. */
export interface Place {
  readonly file: string;
  /** Counted from 1. */
  readonly line: number;
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
  const kind = severity === 'warning' ? 'warning: ' : '';
  return `${formatLine({ file, line })}: ${kind}${path === '' ? '' : `${path}: `}${message}`;
}

/** `rules.yaml:12`, as editors and terminals make links of it. */
export const formatLine = ({ file, line }: Pick<Place, 'file' | 'line'>): string => `${file}:${line}`;

/** By file, then by line. */
export const inFileOrder = (problems: readonly Problem[]): readonly Problem[] =>
  problems.toSorted((a, b) => compareText(a.file, b.file) || a.line - b.line);

const compareText = (a: string, b: string): number => (a < b ? -1 : Number(a > b));
