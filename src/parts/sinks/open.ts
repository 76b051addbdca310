import { shareRuns } from '../../base/later.ts';
import { compressed } from '../../edge/http/compressed.ts';
import { metricsRoute } from '../../edge/http/metrics.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import { referenceCounters, referenceGauges } from '../../operate/observe/reference-names.ts';
import type { OpenOperatorPart, OperatorPart } from '../../serve/control/part.ts';
import { openHttp } from '../../serve/parts/http.ts';
import type { Settings } from '../../settings/settings.ts';

type OperatorContext = Parameters<OpenOperatorPart>[2];

/** Opens the destination of statistics besides the debug port. @throws CannotStart if PROMETHEUS_ADDR cannot be bound */
export const openSink: OpenOperatorPart = (options, { sink }, context) => {
  if (sink.kind === 'none') return {};
  return sink.kind === 'prometheus' ? servePrometheus(sink, options, context) : sendStatsd(sink, options, context);
};

async function sendStatsd(
  sink: Settings['sink'],
  { statistics, figures }: AdminOptions,
  { log, background, earlier }: OperatorContext,
): Promise<OperatorPart> {
  const { extraTags, statsd, isExplicit } = sink;
  const { createStatsdSink, dogStatsdNames, statsdNames } = await import('./statsd.ts');
  const names = sink.kind === 'dogstatsd' ? dogStatsdNames(extraTags, sink.mogrifiers) : statsdNames(extraTags);
  const at = `${statsd.host}:${statsd.port}`;
  const state = isExplicit ? background.add('statistics', `sending statistics to ${at}`) : undefined; // most machines have no daemon
  return createStatsdSink({
    ...statsd,
    names,
    gauges: () => referenceGauges(figures()),
    counters: () => referenceCounters(statistics),
    sentBefore: () => referenceCounters(earlier),
    onDown: (error) => (state ? state.failed(error) : log.info(`no statistics to ${at}: ${error.message}`)),
    onUp: () => (state ? state.works() : log.info(`sending statistics to ${at}`)),
  });
}

async function servePrometheus(
  { prometheus, extraTags }: Settings['sink'],
  { statistics, figures, refresh }: AdminOptions,
  { log }: OperatorContext,
): Promise<OperatorPart> {
  const { createReferenceMetrics } = await import('./prometheus-reference.ts');
  const { address, path, responseTimeAsMilliseconds } = prometheus;
  const metrics = createReferenceMetrics(statistics, { extraTags, responseTimeAsMilliseconds, figures });
  const render = shareRuns(async () => {
    await refresh();
    return metrics.render();
  });
  const routes = new Map([[path, compressed(metricsRoute(render))]]);
  const server = await openHttp({ variable: 'PROMETHEUS_ADDR', address, routes, log });
  return { onCallFinished: metrics.onCallFinished, close: () => server.close(0) };
}
