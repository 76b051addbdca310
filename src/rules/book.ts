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
  /** Undefined until the files have been right for the first time. */
  rules(): RuleTree | undefined;
  /** The same, for other processes. */
  packed(): PackedRules | undefined;
  /** Calls back after each change of them. */
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
  /** Takes every load, the first included: what came of it. */
  readonly onLoad: (loaded: LoadedRules) => void;
  /** Absent: a thread. */
  readonly checker?: FileChecker;
  /** Lets requests through between two slices of compiling; absent: a turn of the event loop. */
  readonly pause?: () => Promise<unknown>;
}

/** Rules that could not be loaded are tried again after this many polls, twice as many each time up to the most, though no file has changed. */
const FIRST_RETRY_POLLS = 1;
const MOST_RETRY_POLLS = 30;

/**
 * Loads the rules, again whenever the files change, and now and then while they cannot be loaded. Rules that turn out wrong leave those in force alone.
 * After the first load, files are parsed in a thread and compiled in slices, so that requests do not wait. It resolves when the first load is over.
 *
 * The files are polled, not watched: what counts is which files there are and when each was last written, so that a
 * write in place, a rename, a Kubernetes ConfigMap's swap of links and a network file system all look alike.
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
    const { files, state } = await lookAt(source);
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
      const { files, state } = await lookAt(source);
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

/** Spaces out the tries of what cannot be loaded. */
class Retry {
  #waitPolls = FIRST_RETRY_POLLS;
  #pollsLeft = FIRST_RETRY_POLLS;

  /** Asked once each poll. */
  isDue(): boolean {
    this.#pollsLeft--;
    return this.#pollsLeft <= 0;
  }

  /** @param isChanged  the files are others than at the last try */
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
    return unreadable(source, error instanceof Error ? error.message : String(error)); // of the thread, for want of memory say
  }
}

/** Loads the rules of a source once. */
export async function loadSource(source: RuleSource, options: LoadOptions): Promise<LoadedRules> {
  const { files } = await lookAt(source);
  return typeof files === 'string' ? unreadable(source, files) : loadRules(files, options);
}

/** The files of a source, or why they cannot be read; and a text that differs whenever their content may. */
async function lookAt(
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
