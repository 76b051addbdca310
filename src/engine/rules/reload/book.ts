import { createHash } from 'node:crypto';
import { every } from '../../../base/clock.ts';
import type { PackedRules } from '../compile/packed.ts';
import type { CountReplicas } from '../compile/replicas.ts';
import type { RuleTree } from '../match/tree.ts';
import type { OverlayFile } from '../read/overlaid.ts';
import { formatProblem, type Problem } from '../read/problem.ts';
import { listFiles, type RuleSource } from './files.ts';
import { RulesInForce } from './in-force.ts';
import {
  type CheckedRules,
  type LoadedRules,
  type LoadOptions,
  loadRules,
  type RuleFileState,
  unreadProblem,
} from './load.ts';
import { checkOverlaid, type Overlay } from './overlay-files.ts';
import { RuleChecker } from './rule-checker.ts';

/** The current rules. */
export interface RuleBook {
  /** Undefined until valid files have been loaded for the first time. */
  rules(): RuleTree | undefined;
  packed(): PackedRules | undefined;
  onChange(listener: () => void): void;
  close(): void;
}

/** Counts the replicas that rules ask for. */
export interface ReplicaSource {
  readonly count: CountReplicas;
  /** Changes with each number. */
  readonly revision: number;
  /** Counts those that were asked for since the last call. Returns whether any was counted. */
  learn(): Promise<boolean>;
  /** Forgets what these rules do not ask for. */
  retain(rules: PackedRules): void;
  close(): void;
}

export interface RuleBookOptions extends Omit<LoadOptions, 'overlay' | 'replicas'> {
  /** Closed with the book. */
  readonly replicaSource?: ReplicaSource | undefined;
  /** The rules that are tried, whose replicas are counted as well. */
  readonly candidate?: () => PackedRules | undefined;
  /** The overlay of the rules; closed with the book. */
  readonly overlay?: Overlay | undefined;
  readonly pollIntervalMs: number;
  /** Called with the result of every load, including the first. */
  readonly onLoad: (loaded: LoadedRules) => void;
}

/** Polls until rules that could not be loaded are retried though no file changed; doubled up to the maximum. */
const FIRST_RETRY_POLLS = 1;
const MOST_RETRY_POLLS = 30;

/**
 * Loads the rules, reloads them whenever the files change, and retries while they cannot be loaded. Invalid rules do
 * not replace the current ones. Loads block this thread: about a second for 10,000 changed rules. Resolves after the
 * first load.
 *
 * The files are polled, not watched: the set of files and their modification times are compared, so that a write in
 * place, a rename, a Kubernetes ConfigMap's swap of links and a network file system are all detected alike. Of more than
 * 100 files, those in unchanged folders are examined in turn, or at once if the system reports a write.
 */
export async function openRuleBook(source: RuleSource, options: RuleBookOptions): Promise<RuleBook> {
  const { pollIntervalMs, onLoad, overlay, replicaSource: replicas, mergeDomains, store } = options;
  const createChecker = () => new RuleChecker({ mergeDomains, replicas: replicas?.count, ...(store && { store }) });
  let checker = createChecker();
  const inForce = new RulesInForce(store?.split);
  const history = new LoadHistory();
  let counted = replicas?.revision;
  let isPolling = false;
  let isClosed = false;

  const list = async () => {
    const { files, state } = await listFiles(source);
    return { files, state: `${state}\n${overlay?.revision}\n${replicas?.revision}` };
  };
  const check = (files: readonly RuleFileState[] | string, over: readonly OverlayFile[]): CheckedRules => {
    if (typeof files === 'string') return unread(source, `cannot be read: ${files}`);
    try {
      return checker.check(files, over);
    } catch (error) {
      // a part of this program may be gone, or memory short
      return unread(source, `cannot be checked: ${error instanceof Error ? error.message : error}`);
    }
  };
  const checkAll = (files: readonly RuleFileState[] | string) => checkOverlaid(overlay, (over) => check(files, over));
  const load = async (files: readonly RuleFileState[] | string, state: string): Promise<void> => {
    if (counted !== replicas?.revision) checker = createChecker();
    counted = replicas?.revision;
    let checked = checkAll(files);
    const isLimited = await store?.limitation?.learn();
    if ((await replicas?.learn()) || isLimited) {
      checker = createChecker(); // which forgets what was valid
      checked = checkAll(files);
    }
    if (isClosed) return;
    const { valid, invalid } = checked;
    if (valid && !invalid) replicas?.retain([...valid.packed, ...(options.candidate?.() ?? [])]);
    const news = invalid ?? valid;
    if (!news || !history.add(state, news)) return;
    if (valid && !(invalid && inForce.has(valid.packed)))
      onLoad({ ...valid, rules: inForce.replaceAtOnce(valid.packed) });
    if (invalid) onLoad(invalid);
  };
  const poll = async (): Promise<void> => {
    if (isPolling) return;
    isPolling = true;
    try {
      const { files, state } = await list();
      if (isClosed || !history.isLoadDue(state)) return;
      await load(files, state);
    } finally {
      isPolling = false;
    }
  };

  const { files, state } = await list();
  await load(files, state);
  const stop = every(pollIntervalMs, () => void poll());
  return {
    rules: () => inForce.tree,
    packed: () => inForce.packed,
    onChange: (listener) => inForce.onChange(listener),
    close() {
      isClosed = true;
      stop();
      source.close?.();
      overlay?.close();
      replicas?.close();
    },
  };
}

/** Decides when to load again: when the files have changed, and with exponential backoff while loading fails. */
class LoadHistory {
  #state: string | undefined;
  /** The digest of the problems of the last load; undefined if it succeeded. */
  #problems: string | undefined;
  #waitPolls = FIRST_RETRY_POLLS;
  #pollsLeft = FIRST_RETRY_POLLS;

  isLoadDue(state: string): boolean {
    if (state !== this.#state) return true;
    if (this.#problems === undefined) return false;
    this.#pollsLeft--;
    return this.#pollsLeft <= 0;
  }

  /**
   * Records a load. Returns whether to report it: it succeeded, its problems differ from those of the previous load, or
   * its files do.
   */
  add(state: string, checked: CheckedRules): boolean {
    const problems = checked.ok ? undefined : digestProblems(checked.problems);
    const isChanged = state !== this.#state;
    const isNews = isChanged || problems === undefined || problems !== this.#problems;
    const isFirst = checked.ok || isChanged;
    this.#waitPolls = isFirst ? FIRST_RETRY_POLLS : Math.min(this.#waitPolls * 2, MOST_RETRY_POLLS);
    this.#pollsLeft = this.#waitPolls;
    this.#state = state;
    this.#problems = problems;
    return isNews;
  }
}

const digestProblems = (problems: readonly Problem[]): string =>
  createHash('sha256').update(problems.map(formatProblem).join('\n')).digest('base64url');

/** Loads the rules of a source once. */
export async function loadSource(source: RuleSource, options: LoadOptions): Promise<LoadedRules> {
  const { files } = await listFiles(source);
  if (typeof files === 'string') return unread(source, `cannot be read: ${files}`);
  const loaded = loadRules(files, options);
  return (await options.store?.limitation?.learn()) ? loadRules(files, options) : loaded;
}

const unread = ({ description }: RuleSource, why: string): Extract<LoadedRules, { ok: false }> => ({
  ok: false,
  problems: [unreadProblem(description, why)],
});
