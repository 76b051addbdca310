import { type Clock, monotonicMs } from '../../base/clock.ts';
import { createCounterKeys } from '../../engine/backends/key.ts';
import type { OpenStore } from '../../engine/open/store.ts';
import { createSeldomLog } from '../../operate/observe/seldom-log.ts';
import type { OpenDeciderPart } from '../../serve/decider/part.ts';
import { CannotStart } from '../../serve/parts/start-up.ts';
import type { Settings } from '../../settings/settings.ts';
import { quotasService } from './method.ts';
import type { QuotaQuery } from './quota-report.ts';
import { type PoolKeys, QuotaService, shareTerms } from './quota-service.ts';
import { RedisShares } from './redis-shares.ts';
import { MemoryShares, type ShareStore } from './share-store.ts';
import type { ShareTerms } from './shares.ts';

/** No request waits for shares. */
const MIN_TIMEOUT_MS = 1_000;

/** Only the `counter` of a limit is used. */
type KeyLimit = Parameters<ReturnType<typeof createCounterKeys>>[0];

/** Opens the rate limit quota service. */
export const openQuotas: OpenDeciderPart = ({ core: { store, rules, decider } }, settings, { log, clock }) => {
  const { rlqs, counters } = settings;
  const terms = shareTerms(rlqs.ttlMs);
  const shares = openShares(store, { terms, clock }, settings);
  const logSeldom = createSeldomLog(monotonicMs);
  const quotas = new QuotaService({
    rules: rules.book.rules,
    overrides: decider.overrides,
    keyOf: poolKeys(counters.keys),
    shares,
    terms,
    shadowMode: decider.shadowMode,
    unknown: decider.shadowMode ? 'allow' : rlqs.unknown,
    domains: rlqs.domains,
    maxBuckets: rlqs.maxBuckets,
    monotonicMs,
    onUnavailable: (reason) =>
      logSeldom(reason, () =>
        log.error(`quotas of proxies cannot be assigned: ${reason}; not logged again for a minute`),
      ),
  });
  return { offers: quotasService(quotas), quotas, asked: (query: QuotaQuery) => quotas.report(query) };
};

/** Opens the storage of shares beside the counters. @throws CannotStart if their store has none */
function openShares(
  { memory, runScript }: Pick<OpenStore, 'memory' | 'runScript'>,
  { terms, clock }: { readonly terms: ShareTerms; readonly clock: Clock },
  { rlqs, counters }: Pick<Settings, 'rlqs' | 'counters'>,
): ShareStore {
  if (runScript)
    return new RedisShares(runScript, { terms, timeoutMs: Math.max(counters.storeTimeoutMs ?? 0, MIN_TIMEOUT_MS) });
  if (memory) return new MemoryShares(clock, terms, rlqs.maxBytes);
  throw new CannotStart('RLQS requires counters in memory or in Redis: set BACKEND_TYPE');
}

/** A pool's name contains its counter and the length of its fill: shares with another fill belong to another pool. */
function poolKeys(keys: Settings['counters']['keys']): PoolKeys {
  const counterKey = createCounterKeys(keys.prefix, keys);
  const limits = new Map<number, KeyLimit>();
  return (fillMs, domain, entries) => {
    const limit = limits.get(fillMs) ?? ({ counter: `shares|1|${fillMs}` } as KeyLimit);
    limits.set(fillMs, limit);
    return counterKey(limit, domain, entries);
  };
}
