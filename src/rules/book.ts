import { statSync } from 'node:fs';
import type { RuleSource } from './files.ts';
import { type LoadedRules, type LoadOptions, loadRules, type RuleFile } from './load.ts';
import { formatProblem } from './problem.ts';
import type { RuleTree } from './tree.ts';

/** The rules in force. */
export interface RuleBook {
  /** Undefined until the files have been right for the first time. */
  rules(): RuleTree | undefined;
  close(): void;
}

export interface RuleBookOptions extends LoadOptions {
  /** How often the files are looked at for changes. */
  readonly lookIntervalMs: number;
  /** Is told of every load, the first included: what came of it. */
  readonly onLoad: (loaded: LoadedRules) => void;
}

/**
 * Loads the rules, and again whenever the files change, and while they cannot be loaded. Rules that turn out wrong leave those in force alone.
 *
 * The files are looked at, not watched: what counts is which files there are and when each was last written, so that a
 * write in place, a rename, a Kubernetes ConfigMap's swap of links and a network file system all look alike.
 */
export function openRuleBook(source: RuleSource, options: RuleBookOptions): RuleBook {
  const { lookIntervalMs, onLoad } = options;
  let rules: RuleTree | undefined;
  let seen: string | undefined;
  let trouble: string | undefined;

  const look = (): void => {
    const { files, state } = lookAt(source);
    if (state === seen && trouble === undefined) return;
    const loaded = typeof files === 'string' ? unreadable(source, files) : loadRules(files, options);
    const came = loaded.ok ? undefined : loaded.problems.map(formatProblem).join('\n');
    const isKnown = state === seen && came === trouble; // wrong as before: a passing trouble of the system would be gone
    seen = state;
    trouble = came;
    if (isKnown) return;
    if (loaded.ok) rules = loaded.rules;
    onLoad(loaded);
  };

  look();
  const timer = setInterval(look, lookIntervalMs);
  timer.unref();
  return { rules: () => rules, close: () => clearInterval(timer) };
}

/** Loads the rules of a source once. */
export function loadSource(source: RuleSource, options: LoadOptions): LoadedRules {
  const { files } = lookAt(source);
  return typeof files === 'string' ? unreadable(source, files) : loadRules(files, options);
}

/** The files of a source, or why they cannot be read; and a text that differs whenever their content may. */
function lookAt(source: RuleSource): { readonly files: readonly RuleFile[] | string; readonly state: string } {
  try {
    const files = source.list();
    const states = files.map(({ path, name }) => {
      const { ino, size, mtimeMs, ctimeMs } = statSync(path);
      return `${name} ${ino} ${size} ${mtimeMs} ${ctimeMs}`;
    });
    return { files, state: states.join('\n') };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return { files: reason, state: reason };
  }
}

function unreadable({ description }: RuleSource, reason: string): LoadedRules {
  const message = `cannot be read: ${reason}`;
  return { ok: false, problems: [{ file: description, line: 1, path: '', severity: 'error', message }] };
}
