import { banner } from './banner.ts';
import type { Clock } from './clock.ts';
import type { Decider } from './decide.ts';
import { apiRoutes } from './http/api.ts';
import { debugRoutes } from './http/debug.ts';
import { startHttpServer } from './http/server.ts';
import { createLogger, type Logger } from './observe/log.ts';
import { createMetrics, type Metrics } from './observe/prometheus.ts';
import { referenceCounters } from './observe/reference-names.ts';
import { createStatistics, type Statistics } from './observe/stats.ts';
import { createResponseHeaders } from './rls/headers.ts';
import { createHealth, type Readiness } from './rls/health.ts';
import { createDynamicMetadata } from './rls/metadata.ts';
import { createRlsService, type Extras, INTERNAL_ERROR, type Observer } from './rls/service.ts';
import { openRuleBook, type RuleBook } from './rules/book.ts';
import { plainPath, runtimeDirectory } from './rules/files.ts';
import type { LoadedRules } from './rules/load.ts';
import { formatProblem } from './rules/problem.ts';
import type { Settings } from './settings.ts';
import { createCounterKeys, ownCounters } from './stores/key.ts';
import { createMemoryStore } from './stores/memory.ts';
import { connect, describeAddress } from './stores/redis/connect.ts';
import { createRedisStore } from './stores/redis/store.ts';
import type { Store } from './stores/store.ts';
import { startGrpcServer } from './transport/grpc-js.ts';

/** How often rule files are looked at for changes. */
const RULES_LOOK_INTERVAL_MS = 1_000;

/** A running service. */
export interface Service {
  /** What to print at the start. */
  readonly banner: string;
  /** Answers what is under way, then stops. */
  close(): Promise<void>;
}

/** The service cannot start; the message says why, in full. */
export class CannotStart extends Error {
  override readonly name = 'CannotStart';
}

/**
 * Puts the service together: rules, store, then the servers; `close` takes it apart in reverse.
 *
 * @throws CannotStart  wrong rules at a plain path, an address that cannot be bound
 */
export async function serve(settings: Settings, clock: Clock, version: string): Promise<Service> {
  const log = createLogger({ level: settings.LOG_LEVEL, format: settings.LOG_FORMAT });
  for (const warning of settings.warnings) log.warn(warning);
  const parts: { close(): void | Promise<void> }[] = [];
  const close = async (): Promise<void> => {
    for (const part of parts.splice(0).reverse()) await part.close();
  };

  try {
    const statistics = createStatistics(settings.NEAR_LIMIT_RATIO);
    const metrics = createMetrics(statistics, () => readiness().ready);
    const { book, lastLoad, description: rulesFrom } = openRules(settings, log, statistics);
    parts.push(book);
    const { store, description: counters } = openStore(settings, clock, log);
    parts.push(store);
    let closing = false;
    const readiness = () => readinessOf(book, store, closing);

    const observer = createObserver(statistics, metrics, log);
    const service = createRlsService(deciderOf(settings, book, store), extrasOf(settings), observer);
    const failed = (error: unknown) => log.error({ err: error }, 'an HTTP page failed');
    const numbers = { metrics: metrics.render, statistics: () => referenceCounters(statistics) };
    const debug = await listen('DEBUG_PORT', settings.DEBUG_HOST, settings.DEBUG_PORT, (address) =>
      startHttpServer(address, debugRoutes({ rules: book.rules, lastLoad, ...numbers }), failed),
    );
    parts.push({ close: () => debug.close(0) });
    const answering: { close(graceMs: number): Promise<void> }[] = [];
    parts.push({
      async close() {
        closing = true;
        await Promise.all(answering.map((server) => server.close(settings.DRAIN_TIMEOUT)));
      },
    });
    const http = await listen('PORT', settings.HOST, settings.PORT, (address) =>
      startHttpServer(address, apiRoutes(service, readiness), failed),
    );
    answering.push(http);
    const health = createHealth(readiness);
    const grpc = await listen('GRPC_PORT', settings.GRPC_HOST, settings.GRPC_PORT, (address) =>
      startGrpcServer({ address, service, health, clock }),
    );
    answering.push(grpc);
    parts.push(health);

    const at = (host: string, { port }: { readonly port: number }) => `${host}:${port}`;
    return {
      banner: banner({
        version,
        rulesFrom,
        rules: book.rules(),
        counters,
        grpc: grpc.target,
        http: at(settings.HOST, http),
        debug: at(settings.DEBUG_HOST, debug),
      }),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

function openRules(settings: Settings, log: Logger, statistics: Statistics) {
  const source = 'path' in settings.rules ? plainPath(settings.rules.path) : runtimeDirectory(settings.rules.runtime);
  let last: LoadedRules | undefined;
  const book = openRuleBook(source, {
    mergeDomains: settings.MERGE_DOMAIN_CONFIG,
    lookIntervalMs: RULES_LOOK_INTERVAL_MS,
    onLoad(loaded) {
      last = loaded;
      statistics.rulesLoaded(loaded.ok);
      for (const problem of loaded.ok ? loaded.warnings : loaded.problems) {
        if (problem.severity === 'error') log.error(formatProblem(problem));
        else log.warn(formatProblem(problem));
      }
      if (loaded.ok) log.info(`loaded ${loaded.rules.rules.length} rules from ${source.description}`);
    },
  });
  if (!book.rules() && 'path' in settings.rules) {
    book.close();
    throw new CannotStart(`the rules at ${source.description} are wrong: see above`);
  }
  return { book, lastLoad: () => last, description: source.description };
}

function openStore(
  settings: Settings,
  clock: Clock,
  log: Logger,
): { readonly store: Store; readonly description: string } {
  const { redis: address, MEMORY_MAX_COUNTERS: maxCounters } = settings;
  if (!address)
    return { store: createMemoryStore(clock, { maxCounters }), description: `in memory, at most ${maxCounters}` };
  const redis = connect(address);
  const name = describeAddress(address);
  let troubled = false;
  redis.on('ready', () => {
    if (troubled) log.warn(`connected to ${name} again`);
    else log.info(`connected to ${name}`);
    troubled = false;
  });
  redis.on('error', (error: Error) => {
    if (!troubled) log.error(`no connection to ${name}: ${error.message}; trying again until there is one`);
    troubled = true;
  });
  return { store: createRedisStore(redis, clock), description: `in Redis at ${name}` };
}

function deciderOf(settings: Settings, book: RuleBook, store: Store): Decider {
  return {
    rules: book.rules,
    store,
    counters: ownCounters(createCounterKeys(settings.CACHE_KEY_PREFIX)),
    storeTimeoutMs: settings.STORE_TIMEOUT,
    shadowMode: settings.SHADOW_MODE,
    quotaMode: settings.QUOTA_MODE,
    spend: settings.spend,
  };
}

function createObserver(statistics: Statistics, metrics: Metrics, log: Logger): Observer {
  return {
    answered({ domain }, answer, elapsedMs) {
      statistics.answered(domain, answer);
      metrics.called('ShouldRateLimit', 0, elapsedMs);
    },
    failed({ code, details }, cause, elapsedMs) {
      statistics.failed(cause);
      metrics.called('ShouldRateLimit', code, elapsedMs);
      if (details === INTERNAL_ERROR) log.error({ err: cause }, 'a request failed by a bug of ours');
      else log.debug(`a request failed: ${details}`);
    },
  };
}

function readinessOf(book: RuleBook, store: Store, closing: boolean): Readiness {
  const state = store.state();
  const reasons = [
    ...(closing ? ['shutting down'] : []),
    ...(book.rules() ? [] : ['no rate limit configuration loaded']),
    ...(state.ready ? [] : [`counters cannot be reached: ${state.reason}`]),
  ];
  return { ready: reasons.length === 0, reasons };
}

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

async function listen<S>(
  variable: string,
  host: string,
  port: number,
  start: (address: { host: string; port: number }) => Promise<S>,
): Promise<S> {
  try {
    return await start({ host, port });
  } catch (error) {
    throw new CannotStart(
      `${variable}: cannot listen on ${host}:${port}: ${error instanceof Error ? error.message : error}`,
    );
  }
}
