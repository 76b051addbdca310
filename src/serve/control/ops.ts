import { randomInt } from 'node:crypto';
import { every } from '../../base/clock.ts';
import type { OnCallFinished } from '../../edge/grpc/grpc-server.ts';
import { type DebugSources, debugRoutes } from '../../edge/http/debug.ts';
import { shareRendering } from '../../edge/http/metrics.ts';
import type { LiveAdvice } from '../../operate/admin/live-advice.ts';
import { operatorFacts } from '../../operate/admin/metrics.ts';
import { Findings } from '../../operate/findings/findings.ts';
import type { ExpositionFormat } from '../../operate/observe/metric.ts';
import { createMetrics } from '../../operate/observe/prometheus.ts';
import { referenceCounters, referenceGauges } from '../../operate/observe/reference-names.ts';
import type { Statistics } from '../../operate/observe/stats.ts';
import type { InstanceFacts } from '../../operate/observe/table.ts';
import type { Settings } from '../../settings/settings.ts';
import type { Responders } from '../link/responders.ts';
import { at, openHttp } from '../parts/http.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import { openParts, type Part } from '../parts/start-up.ts';
import { openTls } from '../parts/tls.ts';
import { type AdminSources, openAdminPages } from './admin.ts';
import { openConsole } from './console.ts';
import type { ControlCore } from './core.ts';
import { openSink } from './sink.ts';

/** The debug port, and the sink of statistics. */
interface Ops extends Part {
  /** The address of the debug port. */
  readonly debug: string;
  /** Records a gRPC call. */
  readonly onCallFinished: OnCallFinished;
}

interface OpsSources {
  readonly core: ControlCore;
  readonly responders: Responders;
  readonly statistics: Statistics;
  /** The part of the statistics that earlier control processes have sent. */
  readonly earlier: Statistics;
  readonly version: string;
  /** Overrides that the deciders follow, if any. */
  readonly overrides: AdminSources['standing'];
}

/** @throws CannotStart if DEBUG_PORT or PROMETHEUS_ADDR cannot be bound */
export function openOps(
  settings: Settings,
  { core, responders, statistics, earlier, version, overrides }: OpsSources,
  context: ProcessContext,
): Promise<Ops> {
  const { records, rules, hash } = core;
  const { ask, askOne, refresh, figures } = responders;
  const refreshed = shareRendering(refresh);
  const metrics = createMetrics(statistics);
  return openParts(async (add) => {
    const collect = async () => (await ask({ kind: 'evidence' })).map(({ reply }) => reply);
    const findings = add(new Findings({ collect, clock: context.clock, every }));
    const console = add(
      await openConsole(
        settings,
        { records, rules, overrides: core.overrides, hash, responders, findings, statistics, metrics, version },
        context,
      ),
    );
    const advice = settings.advice.maxBytes > 0 ? add(await openAdvice(settings.advice, core, ask)) : undefined;
    const isInMemory = settings.counters.store.kind === 'memory';
    const usage =
      settings.usage &&
      add(await (await import('./usage.ts')).openUsage(settings.usage, { ask, askOne, core, isInMemory }, context));
    const requestsOfMinute = async (): Promise<number> => {
      await refreshed();
      return console.requestsOfMinute();
    };
    const own = {
      core,
      ask,
      askOne,
      version,
      advice,
      usage: usage?.store,
      requestsOfMinute,
      findings,
      console: console.operations,
      standing: overrides,
      sites: responders.sites,
    };
    const admin = add(openAdminPages(settings, own, context));
    const sink = add(await openSink(settings.sink, { statistics, earlier, figures, refresh }, context.log));
    const rendering = (format: ExpositionFormat) =>
      shareRendering(async () => {
        await refreshed();
        return metrics.render(await instanceFacts(core, { responders, findings }, version), format);
      });
    const rendered = { text: rendering('text'), openmetrics: rendering('openmetrics') };
    const pages: DebugSources = {
      rules: rules.book.rules,
      lastLoad: rules.lastLoad,
      overrides: admin.overrides,
      metrics: (format = 'text') => rendered[format](),
      async statistics() {
        await refreshed();
        return [...referenceCounters(statistics), ...referenceGauges(figures())];
      },
    };
    const { address, tls: files } = settings.debug;
    const tls = files && add(await openTls('DEBUG_TLS_CERT', { ...files, clientCa: undefined }, context));
    const routes = debugRoutes(pages, new Map([...admin.routes, ...console.routes]));
    const bounds = { isChecked: admin.isChecked, ...(tls && { tls }) };
    const debug = await openHttp({ variable: 'DEBUG_PORT', address, routes, bounds, log: context.log });
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

/** Follows keys from now on. */
async function openAdvice(
  { maxBytes }: Settings['advice'],
  { rules, hash }: ControlCore,
  ask: Responders['ask'],
): Promise<LiveAdvice> {
  const { LiveAdvice } = await import('../../operate/admin/live-advice.ts');
  return new LiveAdvice({
    maxBytes,
    ask,
    every,
    rules: rules.book.rules,
    hash,
    seed: randomInt(2 ** 31),
  });
}

/** What metrics show besides statistics; deciders are asked for some of it. */
async function instanceFacts(
  { rules, overrides }: ControlCore,
  { responders, findings }: { readonly responders: Responders; readonly findings: Findings },
  version: string,
): Promise<InstanceFacts> {
  const { ask, isReady, figures, openCircuits, store, sites, restarts } = responders;
  const ofOperators = await operatorFacts({ ask, overrides, findings, candidate: rules.candidate });
  return {
    isReady: isReady(),
    figures: figures(),
    openCircuits: openCircuits(),
    store: store(),
    sites: sites(),
    rules: rules.book.rules(),
    inForce: rules.inForce(),
    restarts: restarts(),
    version,
    ...ofOperators,
  };
}
