import { counted } from '../../../base/texts.ts';

/** A position in a rule file, or in a resource of a control plane. */
export interface Place {
  /** The name of the file or the resource in messages. */
  readonly file: string;
  /** Counted from 1; undefined in a resource, which has no lines. */
  readonly line: number | undefined;
  /** Counted from 1; absent if unknown. */
  readonly column?: number | undefined;
  /** `descriptors[2].rate_limit.unit`; empty for the file itself. */
  readonly path: string;
}

/** An error or a warning about a rule file. An error prevents the rules from loading; a warning does not. */
export interface Problem extends Place {
  readonly severity: 'error' | 'warning';
  /** The value, what was expected and what was found. */
  readonly message: string;
  /** The number of problems that this one stands for, if they are not listed. */
  readonly count?: number;
  /** The file could not be read or checked, which says nothing about the rules in it. */
  readonly isUnread?: true;
}

/** The problems that were found in rules. */
export class Problems {
  readonly #all: Problem[];

  /** @param found  earlier problems */
  constructor(found: readonly Problem[] = []) {
    this.#all = [...found];
  }

  get all(): readonly Problem[] {
    return this.#all;
  }

  get hasErrors(): boolean {
    return this.#all.some(({ severity }) => severity === 'error');
  }

  error(place: Place, message: string): undefined {
    this.#all.push(problemAt(place, 'error', message));
  }

  warn(place: Place, message: string): undefined {
    this.#all.push(problemAt(place, 'warning', message));
  }

  add(found: Iterable<Problem>): void {
    for (const problem of found) this.#all.push(problem);
  }
}

/** A message that begins with a key leaves it out, if the path before it ends with that key. */
export function problemAt(place: Place, severity: Problem['severity'], message: string): Problem {
  const key = place.path.slice(place.path.lastIndexOf('.') + 1);
  const rest = message.startsWith(key) ? AFTER_KEY.exec(message.slice(key.length))?.[1] : undefined;
  return { ...place, severity, message: rest ?? message };
}

/** What follows a key: its value, or what is wrong with it. */
const AFTER_KEY = /^(?:: | (?=(?:must|requires|cannot|goes|has|is|needs) ))(.*)$/s;

/** For rules that were checked before: what is reported again is dropped. */
export const checkedBefore: Problems = new (class extends Problems {
  override error(): undefined {}
  override warn(): undefined {}
})();

/** Maximum number of problems that a service keeps of one load. */
export const MAX_KEPT_PROBLEMS = 1_000;

/**
 * The first problems in the given order, errors before warnings, and the number of the remaining ones: rules of a few
 * hundred kilobytes may have tens of thousands. The list may be made of such lists.
 */
export function firstProblems(found: readonly Problem[]): readonly Problem[] {
  if (found.length <= MAX_KEPT_PROBLEMS) return found;
  const errors = Math.min(found.filter(isError).length, MAX_KEPT_PROBLEMS);
  const room = { error: errors, warning: MAX_KEPT_PROBLEMS - errors };
  const isKept = ({ severity }: Problem): boolean => room[severity]-- > 0;
  const [kept, left]: [Problem[], Problem[]] = [[], []];
  for (const problem of found) (isKept(problem) ? kept : left).push(problem);
  const next = left.find(isError) ?? (left[0] as Problem); // not empty
  const count = countProblems(left);
  const listed = next.line === undefined ? '' : ', which weir check lists';
  return [...kept, { ...next, path: '', message: `and ${counted(count, 'more problem')}${listed}`, count }];
}

/** The number of problems in a list that `firstProblems` may have cut. */
export const countProblems = (problems: readonly Problem[]): number =>
  problems.reduce((sum, { count = 1 }) => sum + count, 0);

/** Whether rules could not be read or checked, rather than being invalid. */
export const isUnread = (problems: readonly Problem[]): boolean =>
  problems.filter(isError).every((problem) => problem.isUnread === true);

const isError = ({ severity }: Problem): boolean => severity === 'error';

/**
 * One line of text: `rules.yaml:12: descriptors[2].rate_limit.unit: invalid rate limit unit 'foo'; expected one of …`
 */
export function formatProblem({ file, line, path, severity, message }: Problem): string {
  const kind = severity === 'warning' ? 'warning: ' : '';
  return `${formatLine({ file, line })}: ${kind}${path === '' ? '' : `${path}: `}${message}`;
}

/** `rules.yaml:12`, which editors and terminals turn into a link; for a resource, its name. */
export const formatLine = ({ file, line }: Pick<Place, 'file' | 'line'>): string =>
  line === undefined ? file : `${file}:${line}`;

/** The path of a key of a block. */
export const pathOfKey = (block: string, key: string): string => (block === '' ? key : `${block}.${key}`);

/** Maximum number of characters of a rule file in a message. */
const SHOWN_CHARACTERS = 200;

/** A rule file's text, cut for messages. */
export const shown = (text: string): string =>
  text.length <= SHOWN_CHARACTERS ? text : `${text.slice(0, SHOWN_CHARACTERS)}…`;
