import { banner } from './banner.ts';
import type { Clock } from './clock.ts';
import { createLogger, type Logger } from './observe/log.ts';
import { createMetrics } from './observe/prometheus.ts';
import { referenceCounters, referenceGauges } from './observe/reference-names.ts';
import { createStatistics, type Statistics } from './observe/stats.ts';
import { createResponseHeaders } from './rls/headers.ts';
import { createDynamicMetadata } from './rls/metadata.ts';
import { createRlsService, type Extras, INTERNAL_ERROR, type Observer } from './rls/service.ts';
import type { CannotStart } from './serve/cannot-start.ts';
import { createParts } from './serve/parts.ts';
import { createReadiness } from './serve/readiness.ts';
import { openRules } from './serve/rules.ts';
import { openServers } from './serve/servers.ts';
import { openSink } from './serve/sinks.ts';
import { awaitStore, checkSpend, countersOf, openStore, traitsOf, whenNeverReached } from './serve/store.ts';
import { openTracing } from './serve/tracing.ts';
import type { Settings } from './settings.ts';

/** A running service. */
export interface Service {
  /** What to print at the start. */
  readonly banner: string;
  /** Resolves, if ever, with the reason why the service can never do its work. */
  readonly failed: Promise<CannotStart>;
  /** Answers what is under way, then stops. */
  close(): Promise<void>;
}

/**
 * Puts the service together: counters, rules, statistics, then the servers; `close` takes it apart in reverse.
 *
 * @throws CannotStart  wrong rules at a plain path, an address that cannot be bound, certificates that cannot be used
 */
export async function serve(settings: Settings, clock: Clock, version: string): Promise<Service> {
  const log = createLogger({ level: settings.LOG_LEVEL, format: settings.LOG_FORMAT });
  for (const warning of settings.warnings) log.warn(warning);
  const parts = createParts();
  let isClosing = false;
  const close = (): Promise<void> => {
    isClosing = true;
    return parts.close();
  };

  try {
    const statistics = createStatistics(settings.NEAR_LIMIT_RATIO);
    const tracing = await openTracing(settings, clock, log);
    if (tracing) parts.add(tracing);
    const counters = await openStore(settings, clock, log);
    checkSpend(settings, counters, log);
    const { cache } = counters;
    const spanName = storeSpans[settings.store.kind];
    const store = tracing && spanName ? tracing.store(counters.store, spanName) : counters.store;
    parts.add(store);
    const {
      book,
      lastLoad,
      description: rulesFrom,
    } = await openRules(settings, traitsOf(settings, counters), statistics, log);
    parts.add(book);
    await awaitStore(counters);
    const readiness = createReadiness(settings, book, store, () => isClosing);
    const metrics = createMetrics(statistics, () => readiness().ready);
    const sink = parts.add(await openSink(settings, { statistics, cache }, log));
    const { STORE_TIMEOUT: storeTimeoutMs, SHADOW_MODE: shadowMode, QUOTA_MODE: quotaMode, spend } = settings;
    const modes = { storeTimeoutMs, shadowMode, quotaMode, spend };
    const decider = { rules: book.rules, store, counters: countersOf(settings, clock), ...modes };
    const untraced = createRlsService(decider, extrasOf(settings), createObserver(statistics, log));
    const service = tracing ? tracing.service(untraced) : untraced;
    const { grpc, http, debug } = parts.add(
      await openServers(
        settings,
        {
          service,
          routes: tracing?.routes,
          readiness,
          debug: {
            rules: book.rules,
            lastLoad,
            metrics: metrics.render,
            statistics: () => new Map([...referenceCounters(statistics), ...(cache ? referenceGauges(cache) : [])]),
          },
          clock,
          onCall(method, status, elapsedMs) {
            statistics.called(method);
            metrics.called(method, status, elapsedMs);
            sink.called(method, elapsedMs);
          },
          onConnectionError: metrics.connectionFailed,
        },
        log,
      ),
    );
    return {
      banner: banner({ version, rulesFrom, rules: book.rules(), counters: counters.description, grpc, http, debug }),
      failed: whenNeverReached(settings.REDIS_STARTUP_MAX_ELAPSED_TIME, counters),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** What the spans of a store are called; there are none of one that asks nobody. */
const storeSpans = {
  memory: undefined,
  redis: 'Redis Pipeline Execution',
  memcache: 'Memcached Fetch Execution',
} as const;

function extrasOf(settings: Settings): Extras {
  const { LIMIT_LIMIT_HEADER: limit, LIMIT_REMAINING_HEADER: remaining, LIMIT_RESET_HEADER: reset } = settings;
  return {
    headers: createResponseHeaders({
      limits: settings.LIMIT_RESPONSE_HEADERS_ENABLED ? { limit, remaining, reset } : undefined,
      ofEveryDescriptor: settings.LIMIT_ALL_DESCRIPTORS_HEADERS_ENABLED,
      retryAfter: settings.LIMIT_RETRY_AFTER_HEADERS,
      soft: settings.LIMIT_SOFT_HEADER,
      quotaMode: settings.QUOTA_MODE,
    }),
    metadata: createDynamicMetadata({ ofRequest: settings.RESPONSE_DYNAMIC_METADATA }),
  };
}

function createObserver(statistics: Statistics, log: Logger): Observer {
  return {
    answered: ({ domain }, answer) => statistics.answered(domain, answer),
    failed({ details }, cause) {
      statistics.failed(cause);
      if (details === INTERNAL_ERROR) log.error({ err: cause }, 'a request failed by a bug of ours');
      else log.debug(`a request failed: ${details}`);
    },
  };
}
