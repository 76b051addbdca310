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
import type { Settings } from '../../settings/settings.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import { CannotStart, start } from '../parts/start-up.ts';
import { openCandidateBook } from './candidate.ts';

/** How often rule files are polled for changes. */
const POLL_INTERVAL_MS = 1_000;

/**
 * @throws CannotStart if rules at a plain path or the overlay are invalid, or the settings of the control plane cannot
 * be used
 */
export async function openRules(
  options: Settings['rules'],
  { store, onLoad }: { readonly store: StoreTraits; readonly onLoad: OnLoad },
  context: ProcessContext,
): Promise<SourcedRules> {
  const { origin, overlayPath, mergeDomains, controlPlane } = options;
  const { clock, log } = context;
  const overlay = overlayPath === undefined ? undefined : await openOverlay(overlayPath, log);
  const overlaid = (from: string): string => (overlay ? `${from}, with the overlay ${overlay.description}` : from);
  let last: LoadedRules | undefined;
  let loadedRules: Omit<RulesInForceFacts, 'isNewest'> | undefined;
  let lastReload: ReturnType<SourcedRules['lastReload']>;
  const opened = (book: RuleBook, from: string, notes: readonly string[] = []): SourcedRules => ({
    book,
    description: overlaid(from),
    notes,
    candidate: openCandidateBook(options, { store, overlay, pollIntervalMs: POLL_INTERVAL_MS }, context),
    lastLoad: () => last,
    lastReload: () => lastReload,
    inForce: () => loadedRules && { ...loadedRules, isNewest: last?.ok === true },
  });
  const loadOptions = (from: string) => ({
    mergeDomains,
    store,
    overlay,
    onLoad(loaded: LoadedRules) {
      last = loaded;
      const atMs = clock();
      if (loaded.ok) loadedRules = { atMs, hash: hashRules(loaded.packed ?? []) };
      const reload = onLoad(loaded, overlaid(from));
      if (reload) lastReload = { atMs, reload };
    },
  });
  if ('controlPlane' in origin) {
    const from = `the control plane at ${origin.controlPlane}`;
    const book = await start('CONFIG_GRPC_XDS_*', `${from} cannot be used`, async () => {
      // loads a gRPC library, which no other setting needs
      const { openDiscoveredRules } = await import('../../edge/xds/book.ts');
      const loading = { ...loadOptions(from), ...logConnection(from, log) };
      return openDiscoveredRules({ serverUrl: origin.controlPlane, ...controlPlane }, loading);
    });
    return opened(book, from);
  }
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
  const overlay = await Overlay.open(plainPath(path), POLL_INTERVAL_MS);
  if (overlay.problems.length === 0) return overlay;
  overlay.close();
  logProblems(overlay.problems, log);
  throw new CannotStart(`the overlay ${path} is invalid: see above`);
}
