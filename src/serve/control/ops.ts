import { randomInt } from 'node:crypto';
import { every } from '../../base/clock.ts';
import type { OnCallFinished } from '../../edge/grpc/grpc-server.ts';
import { type DebugSources, debugRoutes } from '../../edge/http/debug.ts';
import { shareRendering } from '../../edge/http/metrics.ts';
import type { LiveAdvice } from '../../operate/admin/live-advice.ts';
import { candidateMetrics, overrideMetrics, unmatchedMetrics } from '../../operate/admin/metrics.ts';
import type { ExpositionFormat } from '../../operate/observe/exposition.ts';
import { createMetrics } from '../../operate/observe/prometheus.ts';
import { referenceCounters, referenceGauges } from '../../operate/observe/reference-names.ts';
import type { Statistics } from '../../operate/observe/stats.ts';
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
  /** The overrides that the deciders follow; undefined: they have none. */
  readonly overrides: AdminSources['standing'];
}

/** @throws CannotStart if DEBUG_PORT or PROMETHEUS_ADDR cannot be bound */
export function openOps(
  settings: Settings,
  { core, responders, statistics, earlier, version, overrides }: OpsSources,
  context: ProcessContext,
): Promise<Ops> {
  const { records, rules, hash } = core;
  const { ask, askOne, refresh, load, restarts, memory, store, isReady } = responders;
  const gauges = () => referenceGauges(responders.cache());
  const refreshed = shareRendering(refresh);
  const metrics = createMetrics(statistics, isReady, responders, {
    ...{ version, load, restarts, memory, store },
    rules: rules.book.rules,
    lastLoad: rules.inForce,
  });
  return openParts(async (add) => {
    const console = add(
      await openConsole(settings, { records, rules, hash, responders, statistics, metrics, version }, context),
    );
    const advice = settings.advice.maxBytes > 0 ? add(await openAdvice(settings.advice, core, ask)) : undefined;
    const requestsOfMinute = async (): Promise<number> => {
      await refreshed();
      return console.requestsOfMinute();
    };
    const own = {
      ...{ core, ask, askOne, version, advice, requestsOfMinute, console: console.operations, standing: overrides },
      sites: () => load().sites,
    };
    const admin = add(openAdminPages(settings, own, context));
    const sink = add(await openSink(settings.sink, { statistics, earlier, gauges, refresh }, context.log));
    const rendering = (format: ExpositionFormat) =>
      shareRendering(async () => {
        await refreshed();
        const first = await ownMetrics(core, ask, format);
        const { contentType, body } = await metrics.render(format);
        return { contentType, body: Buffer.concat([Buffer.from(first), body]) };
      });
    const rendered = { text: rendering('text'), openmetrics: rendering('openmetrics') };
    const pages: DebugSources = {
      rules: rules.book.rules,
      lastLoad: rules.lastLoad,
      overrides: admin.overrides,
      metrics: (format = 'text') => rendered[format](),
      async statistics() {
        await refreshed();
        return [...referenceCounters(statistics), ...gauges()];
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

/** Follows keys from now on. */
async function openAdvice(
  { maxBytes }: Settings['advice'],
  { rules, hash }: ControlCore,
  ask: Responders['ask'],
): Promise<LiveAdvice> {
  const { LiveAdvice } = await import('../../operate/admin/live-advice.ts');
  return new LiveAdvice({ ...{ maxBytes, ask, every, rules: rules.book.rules, hash }, seed: randomInt(2 ** 31) });
}

/** The metrics that deciders are asked for. */
async function ownMetrics(
  { rules, overrides }: ControlCore,
  ask: Responders['ask'],
  format: ExpositionFormat,
): Promise<string> {
  const ofOverrides = overrideMetrics(overrides, rules.book.rules(), format);
  const ofCandidate = await candidateMetrics({ ask, candidate: rules.candidate }, format);
  return `${await unmatchedMetrics(ask, format)}${ofOverrides}${ofCandidate}`;
}
