import { counted } from '../../base/texts.ts';
import { formatProblem, type Problem } from '../rules/read/problem.ts';

/** Rules as YAML, one domain in each file or text. */
export type RuleOptions = RuleFiles | RuleTexts;

interface RuleReading {
  /** Merge files of the same domain, in the order given, instead of refusing them; default: false. */
  readonly mergeDomains?: boolean;
  /** Called with the result of each load, including the first. */
  readonly onLoad?: (loaded: RulesLoaded) => void;
}

/** Rules in files. */
export interface RuleFiles extends RuleReading {
  /** Files, or directories of `.yaml` and `.yml` files at any depth. */
  readonly files: readonly string[];
  /**
   * Poll the files each second, and replace the rules when they change. Changed files are checked in a process of their
   * own; invalid ones change nothing. Default: false.
   */
  readonly watch?: boolean;
}

/** Rules in memory. */
export interface RuleTexts extends RuleReading {
  /** The content of one file, or several with their names in messages. */
  readonly text: string | readonly { readonly name: string; readonly text: string }[];
}

/** The result of loading rules. */
export type RulesLoaded =
  | { readonly ok: true; readonly warnings: readonly Problem[] }
  | { readonly ok: false; readonly problems: readonly Problem[] };

const MAX_SHOWN_PROBLEMS = 10;

/** The rules are invalid. The message shows the first problems. */
export class InvalidRules extends Error {
  override readonly name = 'InvalidRules';
  /** All problems, with file, line, path and message; warnings are included. */
  readonly problems: readonly Problem[];
  constructor(problems: readonly Problem[]) {
    const shown = problems.slice(0, MAX_SHOWN_PROBLEMS).map(formatProblem);
    const left = problems.length - shown.length;
    super([...shown, ...(left > 0 ? [`and ${counted(left, 'more problem')}`] : [])].join('\n'));
    this.problems = problems;
  }
}
