import { randomInt } from 'node:crypto';
import { adviceOperations } from '../admin/advice-operations.ts';
import { candidateMetrics } from '../admin/candidate-metrics.ts';
import { overrideMetrics, unmatchedMetrics } from '../admin/metrics.ts';
import { siteOperations } from '../admin/site-operations.ts';
import type { LiveAdvice } from '../advise/live-advice.ts';
import { hashed } from '../hashed.ts';
import { type DebugSources, debugRoutes } from '../http/debug.ts';
import { shareRendering } from '../http/share-rendering.ts';
import { createMetrics } from '../observe/prometheus.ts';
import { referenceCounters, referenceGauges } from '../observe/reference-names.ts';
import type { Statistics } from '../observe/stats.ts';
import type { Settings } from '../settings.ts';
import { joined } from '../slices.ts';
import { openParts, type Part } from '../start-up.ts';
import type { OnCallFinished } from '../transport/grpc-server.ts';
import type { Responders } from '../workers/responders.ts';
import { openAdminPages } from './admin.ts';
import { openConsole } from './console.ts';
import { every, type ProcessContext } from './context.ts';
import { type Core, deciderOf } from './core.ts';
import type { SourcedRules } from './rules.ts';
import { at, openHttp, openTls } from './servers.ts';
import { openSink } from './sinks.ts';

/** The debug port, and the sink of statistics. */
export interface Ops extends Part {
  /** The address of the debug port. */
  readonly debug: string;
  /** Records a gRPC call. */
  readonly onCallFinished: OnCallFinished;
}

export interface OpsSources {
  readonly core: Core<SourcedRules>;
  readonly responders: Responders;
  readonly statistics: Statistics;
  readonly version: string;
}

/** @throws CannotStart if DEBUG_PORT or PROMETHEUS_ADDR cannot be bound */
export function openOps(
  settings: Settings,
  { core, responders, statistics, version }: OpsSources,
  context: ProcessContext,
): Promise<Ops> {
  const { store, rules, readiness } = core;
  const { ask, refresh, load, restarts } = responders;
  const gauges = () => referenceGauges(responders.cache());
  const refreshed = shareRendering(refresh);
  const metrics = createMetrics(statistics, () => readiness.state().ready, responders, {
    ...{ load, restarts, version },
    rules: rules.book.rules,
    lastLoad: rules.inForce,
    store: () => store.watch?.state(),
    memory: () => store.memory?.held(),
  });
  return openParts(async (add) => {
    const pagesOfConsole = add(
      await openConsole(settings, { core, responders, statistics, metrics, version }, context),
    );
    const advice = settings.advice.maxBytes > 0 ? add(await openAdvice(settings, core, responders)) : undefined;
    const ofSites = siteOperations({
      ...{ sites: settings.sites, report: () => load().sites, ask, hashKeys: settings.admin.hashKeys },
      ...{ rules: rules.book.rules, decider: deciderOf(settings, core, context.clock) },
    });
    const more = [...ofSites, ...pagesOfConsole.operations, ...adviceOperations(advice)];
    const admin = add(openAdminPages(settings, core, { ask, version, more }, context));
    const sink = add(await openSink(settings.sink, { statistics, gauges, refresh }, context.log));
    const pages: DebugSources = {
      rules: rules.book.rules,
      lastLoad: rules.lastLoad,
      overrides: admin.overrides,
      async metrics(format = 'text') {
        await refreshed();
        const ofOverrides = overrideMetrics(store.overrides, rules.book.rules(), format);
        const ofCandidate = await candidateMetrics({ ask, candidate: rules.candidate }, format);
        const first = Buffer.from(`${await unmatchedMetrics(ask, format)}${ofOverrides}${ofCandidate}`);
        const { contentType, body } = metrics.render(format);
        return { contentType, body: following(first, body) };
      },
      async statistics() {
        await refreshed();
        return joined(await referenceCounters(statistics), gauges());
      },
    };
    const { address, tls: files } = settings.debug;
    const tls = files && add(await openTls('DEBUG_TLS_CERT', { ...files, clientCa: undefined }, context));
    const routes = debugRoutes(pages, new Map([...admin.routes, ...pagesOfConsole.routes]));
    const debug = await openHttp('DEBUG_PORT', address, { routes, ...(tls && { bounds: { tls } }) }, context.log);
    add({ close: () => debug.close(0) });
    return {
      debug: at({ ...address, port: debug.port }),
      onCallFinished(method, status, elapsedMs) {
        metrics.onCallFinished(method, status, elapsedMs);
        sink.onCallFinished(method, elapsedMs);
      },
    };
  });
}

/** Follows what keys do, from now on. Loaded only where it is on. */
async function openAdvice(
  { advice, admin }: Pick<Settings, 'advice' | 'admin'>,
  { rules }: Pick<Core, 'rules'>,
  { ask }: Pick<Responders, 'ask'>,
): Promise<LiveAdvice> {
  const { LiveAdvice } = await import('../advise/live-advice.ts');
  return new LiveAdvice({
    ...{ maxBytes: advice.maxBytes, ask, every },
    rules: rules.book.rules,
    seed: randomInt(2 ** 31),
    hash: admin.hashKeys ? hashed : undefined,
  });
}

async function* following<T>(first: T, more: Iterable<T> | AsyncIterable<T>): AsyncGenerator<T> {
  yield first;
  yield* more;
}
