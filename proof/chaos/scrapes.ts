import { setTimeout as sleep } from 'node:timers/promises';
import type { Fleet, Scrape } from './fleet.ts';
import { openScrapes, type ScrapeRecord } from './log.ts';
import { INSTANCES } from './rules.ts';

const EVERY_MS = 500;

/** Scrapes every instance repeatedly, and records counters that are lower than before or gone. */
export function startScrapes(fleet: Fleet, folder: string, nowMs: () => number): { stop(): Promise<void> } {
  const log = openScrapes(folder);
  const stopping = new AbortController();
  const follow = async (instance: number): Promise<void> => {
    let last: Scrape | undefined;
    while (!stopping.signal.aborted) {
      const scrape = await fleet.scrape(instance);
      if (scrape && last?.pid === scrape.pid)
        log.write({ instance, atMs: nowMs(), series: scrape.counters.size, decreased: findDecreases(last, scrape) });
      last = scrape ?? last;
      await sleep(EVERY_MS, undefined, { signal: stopping.signal }).catch(() => {});
    }
  };
  const all = Array.from({ length: INSTANCES }, (_, instance) => follow(instance));
  return {
    async stop() {
      stopping.abort();
      await Promise.all(all);
      await log.close();
    },
  };
}

const findDecreases = ({ counters: before }: Scrape, { counters: after }: Scrape): ScrapeRecord['decreased'] =>
  Array.from(before).flatMap(([series, value]) => {
    const now = after.get(series);
    if (now !== undefined && now >= value) return [];
    return { series, before: value, ...(now !== undefined && { after: now }) };
  });
