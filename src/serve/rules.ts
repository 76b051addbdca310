import type { Clock } from '../clock.ts';
import type { Logger } from '../observe/log.ts';
import type { Statistics } from '../observe/stats.ts';
import { openRuleBook, type RuleBook } from '../rules/book.ts';
import { describeChanges, findChanges, type LoadedTree } from '../rules/changes.ts';
import { plainPath, runtimeDirectory } from '../rules/files.ts';
import type { StoreTraits } from '../rules/fit.ts';
import type { LoadedRules } from '../rules/load.ts';
import { listOverlaid } from '../rules/overlaid.ts';
import { Overlay } from '../rules/overlay-files.ts';
import { hashOf } from '../rules/packed.ts';
import { formatProblem } from '../rules/problem.ts';
import type { Settings } from '../settings.ts';
import { CannotStart } from './cannot-start.ts';
import { openControlPlane } from './control-plane.ts';

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

/** The rules in force and their source. */
export interface OpenRules {
  readonly book: RuleBook;
  /** The result of the last load; the rules in force may be older. */
  lastLoad(): LoadedRules | undefined;
  /** The rules in force; undefined: none. */
  inForce(): RulesLoaded | undefined;
  /** For messages: a path or a control plane. */
  readonly description: string;
}

/** Called with the result of each load and the source of the rules. */
export type OnLoad = (loaded: LoadedRules, from: string) => void;

/** Counts loads, and logs their problems or their changes. */
export function logRuleLoads(statistics: Statistics, log: Logger): OnLoad {
  let inForce: LoadedTree | undefined;
  let isTroubled = false;
  const logChange = async (before: LoadedTree | undefined, after: LoadedTree, from: string, isRecovery: boolean) => {
    const { rules, domains } = after.rules;
    const what = `${rules.length} rules of ${domains.size} domains from ${from}, hash ${hashOf(after.packed)}`;
    if (!before) return log.info(`loaded ${what}`);
    const changes = describeChanges(await findChanges(before, after)) ?? 'no rule has changed';
    log.info(`${isRecovery ? 'the rules are valid again: ' : ''}reloaded ${what}: ${changes}`);
  };
  return (loaded, from) => {
    statistics.rulesLoaded(loaded.ok);
    const problems = loaded.ok ? loaded.warnings : loaded.problems;
    for (const problem of problems.slice(0, MAX_LOGGED_PROBLEMS)) {
      if (problem.severity === 'error') log.error(formatProblem(problem));
      else log.warn(formatProblem(problem));
    }
    const more = problems.length - MAX_LOGGED_PROBLEMS;
    if (more > 0) log.warn(`… and ${more} more; weir check, and /rlconfig?verbose on the debug port, list them all`);
    if (!loaded.ok) {
      if (inForce) log.error(`the rules in force are kept: hash ${hashOf(inForce.packed)}`);
      isTroubled = true;
      return;
    }
    const after = { rules: loaded.rules, packed: loaded.packed ?? [] };
    if (log.isLevelEnabled('info')) void logChange(inForce, after, from, isTroubled);
    inForce = after;
    isTroubled = false;
    if (!log.isLevelEnabled('debug')) return;
    for (const line of take(MAX_LOGGED_PROBLEMS, listOverlaid(loaded.rules.rules))) log.debug(line);
  };
}

function* take<T>(count: number, items: Iterable<T>): Iterable<T> {
  let left = count;
  for (const item of items) {
    if (left-- === 0) return;
    yield item;
  }
}

/** @throws CannotStart if rules at a plain path or the overlay are invalid, or the settings of the control plane cannot be used */
export async function openRules(
  settings: Settings,
  store: StoreTraits,
  onLoad: OnLoad,
  clock: Clock,
  log: Logger,
): Promise<OpenRules> {
  const { rules: origin, MERGE_DOMAIN_CONFIG: mergeDomains } = settings;
  let last: LoadedRules | undefined;
  let loadedRules: Omit<RulesLoaded, 'isNewest'> | undefined;
  const inForce = (): RulesLoaded | undefined => loadedRules && { ...loadedRules, isNewest: last?.ok === true };
  const loadedFrom = (description: string) => (loaded: LoadedRules) => {
    last = loaded;
    if (loaded.ok) loadedRules = { atMs: clock(), hash: hashOf(loaded.packed ?? []) };
    onLoad(loaded, description);
  };
  const lastLoad = () => last;
  const overlay = settings.RULES_OVERLAY === '' ? undefined : await openOverlay(settings.RULES_OVERLAY, log);
  const overlaid = (from: string): string => (overlay ? `${from}, with the overlay ${overlay.description}` : from);
  if ('controlPlane' in origin) {
    const source = `the control plane at ${origin.controlPlane}`;
    const description = overlaid(source);
    const options = { mergeDomains, store, overlay, description: source, onLoad: loadedFrom(description) };
    return {
      book: await openControlPlane(settings, origin.controlPlane, options, log),
      lastLoad,
      inForce,
      description,
    };
  }
  const source = 'path' in origin ? plainPath(origin.path) : runtimeDirectory(origin.runtime);
  const description = overlaid(source.description);
  const book = await openRuleBook(source, {
    mergeDomains,
    store,
    overlay,
    pollIntervalMs: RULES_POLL_INTERVAL_MS,
    onLoad: loadedFrom(description),
  });
  for (const note of source.notes?.() ?? []) log.info(note);
  if (!book.rules() && 'path' in origin) {
    book.close();
    throw new CannotStart(`the rules at ${description} are invalid: see above`);
  }
  return { book, lastLoad, inForce, description };
}

/** @throws CannotStart if it cannot be read, or is invalid */
async function openOverlay(path: string, log: Logger): Promise<Overlay> {
  const overlay = await Overlay.open(plainPath(path), RULES_POLL_INTERVAL_MS);
  const { problems } = overlay;
  if (problems.length === 0) return overlay;
  overlay.close();
  for (const problem of problems.slice(0, MAX_LOGGED_PROBLEMS)) log.error(formatProblem(problem));
  throw new CannotStart(`the overlay ${path} is invalid: see above`);
}
