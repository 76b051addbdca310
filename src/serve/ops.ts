import { candidateMetrics } from '../admin/candidate-metrics.ts';
import { overrideMetrics, unmatchedMetrics } from '../admin/metrics.ts';
import { openAdminPages } from '../admin/open.ts';
import { openAdvice } from '../advise/open.ts';
import { openConsole } from '../console/open.ts';
import { type DebugSources, debugRoutes } from '../http/debug.ts';
import { at, openHttp } from '../http/open.ts';
import { shareRendering } from '../http/share-rendering.ts';
import { openSink } from '../observe/open-sink.ts';
import { createMetrics } from '../observe/prometheus.ts';
import { referenceCounters, referenceGauges } from '../observe/reference-names.ts';
import type { Statistics } from '../observe/stats.ts';
import type { ProcessContext } from '../process-context.ts';
import type { SourcedRules } from '../rules/open.ts';
import type { Settings } from '../settings.ts';
import { joined } from '../slices.ts';
import { openParts, type Part } from '../start-up.ts';
import type { OnCallFinished } from '../transport/grpc-server.ts';
import { openTls } from '../transport/open.ts';
import type { Responders } from '../workers/responders.ts';
import type { Core } from './core.ts';

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
  const { store, rules, decider, readiness, hash } = core;
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
    const console = add(
      await openConsole(settings, { store, rules, hash, responders, statistics, metrics, version }, context),
    );
    const advice = await openAdvice(settings, { rules: rules.book.rules, hash }, responders);
    if (advice) add(advice);
    const requestsOfMinute = async (): Promise<number> => {
      await refreshed();
      return console.requestsOfMinute();
    };
    const own = {
      ...{ core, ask, version, advice, requestsOfMinute },
      ...{ sites: () => load().sites, console: console.operations },
    };
    const admin = add(openAdminPages(settings, own, context));
    const sink = add(await openSink(settings.sink, { statistics, gauges, refresh }, context.log));
    const pages: DebugSources = {
      rules: rules.book.rules,
      lastLoad: rules.lastLoad,
      overrides: admin.overrides,
      async metrics(format = 'text') {
        await refreshed();
        const ofOverrides = overrideMetrics(decider.overrides, rules.book.rules(), format);
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
    const routes = debugRoutes(pages, new Map([...admin.routes, ...console.routes]));
    const bounds = { isChecked: admin.isChecked, ...(tls && { tls }) };
    const debug = await openHttp('DEBUG_PORT', address, { routes, bounds }, context.log);
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

async function* following<T>(first: T, more: Iterable<T> | AsyncIterable<T>): AsyncGenerator<T> {
  yield first;
  yield* more;
}
