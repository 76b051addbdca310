import type { StoreTraits } from '../../engine/rules/compile/fit.ts';
import { hashRules } from '../../engine/rules/compile/packed.ts';
import { openRuleBook, type RuleBook } from '../../engine/rules/reload/book.ts';
import { plainPath, runtimeDirectory } from '../../engine/rules/reload/files.ts';
import type { LoadedRules } from '../../engine/rules/reload/load.ts';
import { Overlay } from '../../engine/rules/reload/overlay-files.ts';
import type { SourcedRules } from '../../operate/admin/options.ts';
import type { Logger } from '../../operate/observe/log.ts';
import { logProblems, type OnLoad } from '../../operate/observe/rule-loads.ts';
import type { RulesInForceFacts } from '../../operate/observe/table.ts';
import { candidates, replicaSources, ruleSources } from '../../parts/parts.ts';
import type { Settings } from '../../settings/settings.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import { CannotStart } from '../parts/start-up.ts';

/** How often rule files are polled for changes. */
const POLL_INTERVAL_MS = 1_000;

/** @throws CannotStart if rules at a path, the overlay, or the settings of the control plane are invalid */
export async function openRules(
  options: Settings['rules'],
  { store, onLoad }: { readonly store: StoreTraits; readonly onLoad: OnLoad },
  context: ProcessContext,
): Promise<SourcedRules> {
  const { origin, overlayPath, mergeDomains } = options;
  const { clock, log } = context;
  const overlay = overlayPath === undefined ? undefined : await openOverlay(overlayPath, log);
  const [replicas] = Object.values(replicaSources).map((openSource) => openSource(context));
  const [candidate] = Object.values(candidates).map((open) => open(options, { store, overlay, replicas }, context));
  const overlaid = (from: string): string => (overlay ? `${from}, with the overlay ${overlay.description}` : from);
  let last: LoadedRules | undefined;
  let loadedRules: Omit<RulesInForceFacts, 'isNewest'> | undefined;
  let lastReload: ReturnType<SourcedRules['lastReload']>;
  const opened = (book: RuleBook, from: string, notes: readonly string[] = []): SourcedRules => ({
    book,
    description: overlaid(from),
    notes,
    candidate,
    lastLoad: () => last,
    lastReload: () => lastReload,
    inForce: () => loadedRules && { ...loadedRules, isNewest: last?.ok === true },
  });
  const loadOptions = (from: string) => ({
    mergeDomains,
    store,
    overlay,
    replicaSource: replicas,
    candidate: () => candidate?.packed(),
    onLoad(loaded: LoadedRules) {
      last = loaded;
      const atMs = clock();
      if (loaded.ok) loadedRules = { atMs, hash: hashRules(loaded.packed ?? []) };
      const reload = onLoad(loaded, overlaid(from));
      if (reload) lastReload = { atMs, reload };
    },
  });
  const [other] = Object.values(ruleSources).flatMap((find) => find(options, log) ?? []);
  if (other) return opened(await other.open(loadOptions(other.from)), other.from);
  if ('controlPlane' in origin) throw new CannotStart('CONFIG_TYPE: this build cannot read rules of a control plane');
  const source = 'path' in origin ? plainPath(origin.path) : runtimeDirectory(origin.runtime);
  const from = source.description;
  const book = await openRuleBook(source, {
    ...loadOptions(from),
    pollIntervalMs: POLL_INTERVAL_MS,
  });
  if (!book.rules() && 'path' in origin) {
    book.close();
    throw new CannotStart(`the rules at ${overlaid(from)} are invalid: see above`);
  }
  return opened(book, from, source.notes?.());
}

/** @throws CannotStart if it cannot be read, or is invalid */
async function openOverlay(path: string, log: Logger): Promise<Overlay> {
  const overlay = await Overlay.open(plainPath(path), POLL_INTERVAL_MS);
  if (overlay.problems.length === 0) return overlay;
  overlay.close();
  logProblems(overlay.problems, log);
  throw new CannotStart(`the overlay ${path} is invalid: see above`);
}
