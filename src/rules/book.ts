import type { RuleSource } from './files.ts';
import { RulesInForce } from './in-force.ts';
import {
  type CheckedRules,
  createFileChecker,
  type LoadedRules,
  type LoadOptions,
  loadRules,
  type RuleFileState,
} from './load.ts';
import type { PackedRules } from './packed.ts';
import { formatProblem } from './problem.ts';
import { openThread } from './thread.ts';
import type { RuleTree } from './tree.ts';

/** The rules in force. */
export interface RuleBook {
  /** Undefined until valid files have been loaded for the first time. */
  rules(): RuleTree | undefined;
  /** The same, for other processes. */
  packed(): PackedRules | undefined;
  /** Calls the listener after each change. */
  onChange(listener: () => void): void;
  close(): void;
}

/** Checks rule files away from the event loop. */
export interface FileChecker {
  do(files: readonly RuleFileState[]): Promise<CheckedRules>;
  close(): void;
}

export interface RuleBookOptions extends LoadOptions {
  /** How often the files are polled for changes. */
  readonly pollIntervalMs: number;
  /** Called with the result of every load, including the first. */
  readonly onLoad: (loaded: LoadedRules) => void;
  /** Default: a thread. */
  readonly checker?: FileChecker;
  /** Lets requests be handled between two slices of compilation; default: one turn of the event loop. */
  readonly pause?: () => Promise<unknown>;
}

/** Rules that could not be loaded are retried after this many polls, doubled each time up to the maximum, even if no file has changed. */
const FIRST_RETRY_POLLS = 1;
const MOST_RETRY_POLLS = 30;

/**
 * Loads the rules, reloads them whenever the files change, and retries while they cannot be loaded. Invalid rules do not replace those in force.
 * After the first load, files are parsed in a thread and compiled in slices, so that requests do not wait. Resolves after the first load.
 *
 * The files are polled, not watched: the set of files and their modification times are compared, so that a
 * write in place, a rename, a Kubernetes ConfigMap's swap of links and a network file system are all detected alike.
 */
export async function openRuleBook(source: RuleSource, options: RuleBookOptions): Promise<RuleBook> {
  const { pollIntervalMs, onLoad, pause } = options;
  const { mergeDomains, store } = options;
  const loadOptions: LoadOptions = { mergeDomains, ...(store && { store }) };
  const checker = options.checker ?? openThread(new URL('./check-thread.js', import.meta.url), loadOptions);
  const inForce = new RulesInForce();
  const retry = new Retry();
  let seen: string | undefined;
  let trouble: string | undefined;
  let isPolling = false;
  let isClosed = false;

  /** Whether the problems are news. */
  const isNews = (state: string, checked: CheckedRules): boolean => {
    const came = checked.ok ? undefined : checked.problems.map(formatProblem).join('\n');
    const isKnown = state === seen && came === trouble && came !== undefined;
    retry.loaded(checked.ok, state !== seen);
    seen = state;
    trouble = came;
    return !isKnown;
  };
  const loadFirst = async (): Promise<void> => {
    const { files, state } = await readState(source);
    const checked = typeof files === 'string' ? unreadable(source, files) : createFileChecker(loadOptions)(files);
    isNews(state, checked);
    onLoad(checked.ok ? { ...checked, rules: inForce.replaceAtOnce(checked.packed) } : checked);
  };
  const load = async (files: readonly RuleFileState[] | string, state: string): Promise<void> => {
    const checked = typeof files === 'string' ? unreadable(source, files) : await check(checker, source, files);
    if (isClosed || !isNews(state, checked)) return;
    onLoad(checked.ok ? { ...checked, rules: await inForce.replace(checked.packed, pause) } : checked);
  };
  const poll = async (): Promise<void> => {
    if (isPolling) return;
    isPolling = true;
    try {
      const { files, state } = await readState(source);
      if (isClosed || (state === seen && !(trouble !== undefined && retry.isDue()))) return;
      await load(files, state);
    } finally {
      isPolling = false;
    }
  };

  await loadFirst();
  const timer = setInterval(() => void poll(), pollIntervalMs);
  timer.unref();
  return {
    rules: () => inForce.tree,
    packed: () => inForce.packed,
    onChange: (listener) => inForce.onChange(listener),
    close() {
      isClosed = true;
      clearInterval(timer);
      checker.close();
    },
  };
}

/** Exponential backoff between attempts to load rules that cannot be loaded. */
class Retry {
  #waitPolls = FIRST_RETRY_POLLS;
  #pollsLeft = FIRST_RETRY_POLLS;

  /** Called once per poll. */
  isDue(): boolean {
    this.#pollsLeft--;
    return this.#pollsLeft <= 0;
  }

  /** @param isChanged  whether the files differ from those of the last attempt */
  loaded(isRight: boolean, isChanged: boolean): void {
    const isFirst = isRight || isChanged;
    this.#waitPolls = isFirst ? FIRST_RETRY_POLLS : Math.min(this.#waitPolls * 2, MOST_RETRY_POLLS);
    this.#pollsLeft = this.#waitPolls;
  }
}

async function check(checker: FileChecker, source: RuleSource, files: readonly RuleFileState[]): Promise<CheckedRules> {
  try {
    return await checker.do(files);
  } catch (error) {
    return unreadable(source, error instanceof Error ? error.message : String(error)); // the thread failed, e.g. out of memory
  }
}

/** Loads the rules of a source once. */
export async function loadSource(source: RuleSource, options: LoadOptions): Promise<LoadedRules> {
  const { files } = await readState(source);
  return typeof files === 'string' ? unreadable(source, files) : loadRules(files, options);
}

/** The files of a source, or why they cannot be read; and a text that differs whenever their content may. */
async function readState(
  source: RuleSource,
): Promise<{ readonly files: readonly RuleFileState[] | string; readonly state: string }> {
  try {
    const files = await source.list().catch(() => source.list()); // a file may vanish between `readdir` and `stat`
    return { files, state: files.map((file) => file.state).join('\n') };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return { files: reason, state: reason };
  }
}

function unreadable({ description }: RuleSource, reason: string): Extract<LoadedRules, { ok: false }> {
  const message = `cannot be read: ${reason}`;
  return { ok: false, problems: [{ file: description, line: 1, path: '', severity: 'error', message }] };
}
