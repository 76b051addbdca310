import { every } from '../../base/clock.ts';
import type { UsageAside, UsagePage, UsageSource } from '../../engine/backends/usage.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import type { MethodCall } from '../../operate/admin/remote-records.ts';
import type { ProcessContext } from '../../serve/parts/process-context.ts';
import { CannotStart, openParts, type Part, start } from '../../serve/parts/start-up.ts';
import type { Settings } from '../../settings/settings.ts';
import { createCollector } from './collector.ts';
import { FileUsage } from './files.ts';
import type { UsageStore } from './usage-store.ts';

/** Package that usage in PostgreSQL needs in addition: an optional peer dependency. */
const PACKAGE = 'pg';

/** Until then the processes that answer requests may still start. */
const START_MS = 10_000;

interface UsageSources extends Pick<AdminOptions, 'ask' | 'askOne' | 'rules' | 'hash'> {
  /** The counters are in the memory of each decider. */
  readonly isInMemory: boolean;
}

/**
 * Collects usage and keeps it. Only loaded if this instance keeps usage.
 *
 * @throws CannotStart if the directory cannot be used, or the client of the database is not installed
 */
export function openUsage(
  { at, ...settings }: NonNullable<Settings['usage']>,
  { isInMemory, ask, askOne, rules, hash }: UsageSources,
  { clock, log, background }: ProcessContext,
): Promise<Part & { readonly store: UsageStore }> {
  return openParts(async (add) => {
    const store = add(await openStore(at, log));
    const collect = createCollector({
      ...settings,
      sources: askDeciders({ ask, askOne, isInMemory }),
      store,
      rules,
      hash,
      clock,
      onDeleted: (what) => log.warn(what),
      onForeign: (name) => log.error(`usage leaves out ${name}, which no instance of Weir has written`),
      retention: background.add('usage_retention', 'deleting old usage'),
      rows: background.add('usage_rows', 'keeping every row of usage'),
    });
    const state = background.add('usage', 'collecting usage', START_MS);
    add({ close: every(settings.intervalMs, () => void state.run(collect)) }); // what is left is collected after the next start
    return { store };
  });
}

async function openStore(at: NonNullable<Settings['usage']>['at'], log: ProcessContext['log']): Promise<UsageStore> {
  const { url } = at;
  if (url === undefined)
    return start('USAGE_DIR', `${at.directory} cannot be used`, () => FileUsage.open(at.directory));
  const { PostgresUsage } = await import('./postgres.ts').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new CannotStart(
      `USAGE_URL: the client of PostgreSQL is not installed: npm install ${PACKAGE} (${error.message})`,
    );
  });
  const onError = (error: Error): void => log.warn(`the connection to USAGE_URL was lost: ${error.message}`);
  return new PostgresUsage(url, onError);
}

/** Usage in Redis is asked of one decider, and that in memory of each. */
function askDeciders({ ask, askOne, isInMemory }: Pick<UsageSources, 'ask' | 'askOne' | 'isInMemory'>): UsageSource {
  /** @returns what each source has returned */
  const call = async (message: MethodCall<UsageSource>): Promise<readonly unknown[]> => {
    const question = { kind: 'part', part: 'usage', question: message } as const;
    const replies = isInMemory ? (await ask(question)).map(({ reply }) => reply) : [await askOne(question)];
    const known = replies.flatMap((reply) => (reply as readonly unknown[] | undefined) ?? []); // by the same capability
    if (known.length === 0 && !isInMemory) throw new Error('no process that answers requests has replied');
    return known;
  };
  // the results are those of the same method
  return {
    async setAside(...args) {
      const all = (await call({ method: 'setAside', args })) as UsageAside[];
      return { batches: all.flatMap((one) => one.batches), problems: all.flatMap((one) => one.problems) };
    },
    read: async (...args) => (await call({ method: 'read', args })).find(Boolean) as UsagePage | undefined,
    drop: async (...args) => void (await call({ method: 'drop', args })),
  };
}
