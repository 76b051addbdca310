import type { Route } from '../../edge/http/server.ts';
import type { RlsService } from '../../edge/rls/service.ts';
import type { Decider } from '../../engine/decide/decide.ts';
import { deciderParts } from '../../parts/parts.ts';
import type { Settings } from '../../settings/settings.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import { openParts } from '../parts/start-up.ts';
import type { DeciderCore } from './core.ts';
import type { DeciderPart } from './part.ts';
import type { ServiceObserver } from './reporter.ts';

/** A decider's core, and what is notified of its requests. */
export interface Observed {
  readonly core: DeciderCore;
  readonly serviceObserver: ServiceObserver;
}

/** The core's decider, on the ledger that parts may put in its place. */
type Watched = Omit<DeciderCore['decider'], 'ledger'> & { readonly ledger: NonNullable<DeciderPart['ledger']> };

/** Opens the optional capabilities that the settings ask for; the others are not loaded. */
export function openDeciderParts(settings: Settings, { core, serviceObserver }: Observed, context: ProcessContext) {
  return openParts(async (add) => {
    const opened = new Map<string, DeciderPart>();
    let watched: Watched = core.decider;
    let decider: Decider = watched;
    for (const [name, load] of Object.entries(deciderParts)) {
      const open = await load(settings);
      if (!open) continue;
      const part = await open({ core, decider, ledger: watched.ledger, serviceObserver }, settings, context);
      add({ close: () => part.close?.() });
      opened.set(name, part);
      if (part.ledger || part.watch) {
        const { ledger = watched.ledger, watch } = part;
        watched = { ...watched, ledger, ...(watch && { onBounded: watch.bounded }) };
        decider = watched;
      }
      decider = part.decider ?? decider;
    }
    const all = [...opened.values()];
    return {
      opened,
      watched,
      /** Decides requests. */
      decider,
      service: (inner: RlsService): RlsService =>
        all.reduce((service, part) => part.service?.(service) ?? service, inner),
      pages: (inner: ReadonlyMap<string, Route>): ReadonlyMap<string, Route> =>
        all.reduce((pages, part) => part.pages?.(pages) ?? pages, inner),
      offers: all.flatMap(({ offers }) => offers ?? []),
      observers: all.flatMap(({ answered }) => answered ?? []),
      watch: all.find(({ watch }) => watch)?.watch,
      quotas: all.find(({ quotas }) => quotas)?.quotas,
      sites: () => all.find(({ sites }) => sites)?.sites?.(),
    };
  });
}
