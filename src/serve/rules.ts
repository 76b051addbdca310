import type { CandidateBook } from '../candidate/book.ts';
import type { CandidateFeed } from '../candidate/feed.ts';
import type { Logger } from '../observe/log.ts';
import type { Statistics } from '../observe/stats.ts';
import { openRuleBook, type RuleBook } from '../rules/book.ts';
import type { LoadedTree } from '../rules/changes.ts';
import { plainPath, runtimeDirectory } from '../rules/files.ts';
import type { StoreTraits } from '../rules/fit.ts';
import type { LoadedRules } from '../rules/load.ts';
import { listOverlaid } from '../rules/overlaid.ts';
import { Overlay } from '../rules/overlay-files.ts';
import { hashOf } from '../rules/packed.ts';
import { formatProblem, type Problem } from '../rules/problem.ts';
import { describeReload, findReload, type Reload } from '../rules/reload.ts';
import type { Settings } from '../settings.ts';
import { openCandidateBook } from './candidate-book.ts';
import { CannotStart, start } from './cannot-start.ts';
import type { ProcessContext } from './parts.ts';

/** How often rule files are polled for changes. */
const RULES_POLL_INTERVAL_MS = 1_000;

/** Logged problems per load: thousands of lines would delay requests. */
const MAX_LOGGED_PROBLEMS = 200;

/** When the rules in force were loaded, their hash, and whether newer ones are invalid. */
export interface RulesLoaded {
  readonly atMs: number;
  readonly hash: string;
  readonly isNewest: boolean;
}

/** What the last reload did, and when. */
export interface LastReload {
  readonly atMs: number;
  readonly reload: Reload;
}

/** The rules in force and their source. */
export interface OpenRules {
  readonly book: RuleBook;
  /** The result of the last load; the rules in force may be older. */
  lastLoad(): LoadedRules | undefined;
  /** The rules in force; undefined: none. */
  inForce(): RulesLoaded | undefined;
  /** Undefined: the rules are the first, or another process loads them. */
  lastReload(): LastReload | undefined;
  /** For messages: a path or a control plane. */
  readonly description: string;
  /** For operators: how the source is read, if that is not obvious. */
  readonly notes: readonly string[];
  /** The rules that are tried beside those in force. */
  readonly candidate: CandidateFeed;
}

/** The rules of the process that reads them from their source. */
export interface SourcedRules extends OpenRules {
  readonly candidate: CandidateBook;
}

/** Called with the result of each load and the source of the rules. Resolves with what a reload did. */
export type OnLoad = (loaded: LoadedRules, from: string) => Promise<Reload | undefined>;

/** Counts loads, and logs their problems or their changes. */
export function logRuleLoads(statistics: Statistics, log: Logger): OnLoad {
  let inForce: LoadedTree | undefined;
  let isTroubled = false;
  const logChange = async (
    before: LoadedTree | undefined,
    after: LoadedTree,
    from: string,
    isRecovery: boolean,
  ): Promise<Reload | undefined> => {
    const { rules, domains } = after.rules;
    const what = `${rules.length} rules of ${domains.size} domains from ${from}, hash ${hashOf(after.packed)}`;
    if (!before) {
      log.info(`loaded ${what}`);
      return undefined;
    }
    const reload = await findReload(before, after);
    const text = describeReload(reload) ?? 'no rule has changed';
    log.info(`${isRecovery ? 'the rules are valid again: ' : ''}reloaded ${what}: ${text}`);
    return reload;
  };
  return async (loaded, from) => {
    statistics.rulesLoaded(loaded.ok);
    logProblems(loaded.ok ? loaded.warnings : loaded.problems, log);
    if (!loaded.ok) {
      if (inForce) log.error(`the rules in force are kept: hash ${hashOf(inForce.packed)}`);
      isTroubled = true;
      return undefined;
    }
    const after = { rules: loaded.rules, packed: loaded.packed ?? [] };
    const reload = logChange(inForce, after, from, isTroubled);
    inForce = after;
    isTroubled = false;
    if (log.isLevelEnabled('debug'))
      for (const line of take(MAX_LOGGED_PROBLEMS, listOverlaid(loaded.rules.rules))) log.debug(line);
    return reload;
  };
}

function logProblems(problems: readonly Problem[], log: Logger): void {
  for (const problem of problems.slice(0, MAX_LOGGED_PROBLEMS))
    log[problem.severity === 'error' ? 'error' : 'warn'](formatProblem(problem));
  const more = problems.length - MAX_LOGGED_PROBLEMS;
  if (more > 0) log.warn(`… and ${more} more; weir check, and /rlconfig?verbose on the debug port, list them all`);
}

function* take<T>(count: number, items: Iterable<T>): Iterable<T> {
  let left = count;
  for (const item of items) {
    if (left-- === 0) return;
    yield item;
  }
}

/**
 * @throws CannotStart if rules at a plain path or the overlay are invalid, or the settings of the control plane cannot
 * be used
 */
export async function openRules(
  options: Settings['rules'],
  store: StoreTraits,
  onLoad: OnLoad,
  context: ProcessContext,
): Promise<SourcedRules> {
  const { origin, overlayPath, mergeDomains, controlPlane } = options;
  const { clock, log } = context;
  const overlay = overlayPath === undefined ? undefined : await openOverlay(overlayPath, log);
  const overlaid = (from: string): string => (overlay ? `${from}, with the overlay ${overlay.description}` : from);
  let last: LoadedRules | undefined;
  let loadedRules: Omit<RulesLoaded, 'isNewest'> | undefined;
  let lastReload: LastReload | undefined;
  const opened = (book: RuleBook, from: string, notes: readonly string[] = []): SourcedRules => ({
    ...{ book, description: overlaid(from), notes },
    candidate: openCandidateBook(options, store, overlay, context),
    lastLoad: () => last,
    lastReload: () => lastReload,
    inForce: () => loadedRules && { ...loadedRules, isNewest: last?.ok === true },
  });
  const optionsOf = (from: string) => ({
    ...{ mergeDomains, store, overlay },
    onLoad(loaded: LoadedRules) {
      last = loaded;
      const atMs = clock();
      if (loaded.ok) loadedRules = { atMs, hash: hashOf(loaded.packed ?? []) };
      void onLoad(loaded, overlaid(from)).then((reload) => {
        if (reload) lastReload = { atMs, reload };
      });
    },
  });
  if ('controlPlane' in origin) {
    const from = `the control plane at ${origin.controlPlane}`;
    const loading = { ...optionsOf(from), ...logConnection(from, log) };
    const book = await start('CONFIG_GRPC_XDS_*', `${from} cannot be used`, async () => {
      // loads a gRPC library, which no other setting needs
      const { openDiscoveredRules } = await import('../xds/book.ts');
      return openDiscoveredRules({ serverUrl: origin.controlPlane, ...controlPlane }, loading);
    });
    return opened(book, from);
  }
  const source = 'path' in origin ? plainPath(origin.path) : runtimeDirectory(origin.runtime);
  const from = source.description;
  const book = await openRuleBook(source, { ...optionsOf(from), pollIntervalMs: RULES_POLL_INTERVAL_MS });
  if (!book.rules() && 'path' in origin) {
    book.close();
    throw new CannotStart(`the rules at ${overlaid(from)} are invalid: see above`);
  }
  return opened(book, from, source.notes?.());
}

function logConnection(description: string, log: Logger) {
  let wasDown = false;
  return {
    onUp() {
      if (wasDown) log.warn(`connected to ${description} again`);
      else log.info(`connected to ${description}`);
    },
    onDown(reason: string) {
      wasDown = true;
      log.error(`no rules from ${description}: ${reason}; retrying`);
    },
  };
}

/** @throws CannotStart if it cannot be read, or is invalid */
async function openOverlay(path: string, log: Logger): Promise<Overlay> {
  const overlay = await Overlay.open(plainPath(path), RULES_POLL_INTERVAL_MS);
  if (overlay.problems.length === 0) return overlay;
  overlay.close();
  logProblems(overlay.problems, log);
  throw new CannotStart(`the overlay ${path} is invalid: see above`);
}
