import { shareRuns } from '../../base/later.ts';
import { compressed } from '../../edge/http/compressed.ts';
import { metricsRoute } from '../../edge/http/metrics.ts';
import { referenceCounters, referenceGauges } from '../../operate/observe/reference-names.ts';
import type { Statistics } from '../../operate/observe/stats.ts';
import type { ReportedFigures } from '../../operate/observe/table.ts';
import type { Settings } from '../../settings/settings.ts';
import { openHttp } from '../../serve/parts/http.ts';
import type { ProcessContext } from '../../serve/parts/process-context.ts';

/** A destination of statistics besides the debug port. */
interface Sink {
  /** Records the duration of a gRPC call. */
  onCallFinished(method: string, elapsedMs: number): void;
  close(): Promise<void>;
}

/** The statistics of all processes. */
interface MetricsSource {
  readonly statistics: Statistics;
  /** The part of the statistics that earlier processes have sent. */
  readonly earlier: Statistics;
  readonly figures: () => ReportedFigures;
  /** Updates both. */
  readonly refresh: () => Promise<void>;
}

/** @throws CannotStart if PROMETHEUS_ADDR cannot be bound */
export function openSink(
  options: Settings['sink'],
  source: MetricsSource,
  context: ProcessContext,
): Promise<Sink> | Sink {
  switch (options.kind) {
    case 'none':
      return { onCallFinished: () => {}, close: async () => {} };
    case 'prometheus':
      return servePrometheus(options, source, context);
    default:
      return sendStatsd(options, source, context);
  }
}

async function sendStatsd(
  options: Settings['sink'],
  source: MetricsSource,
  { log, background }: ProcessContext,
): Promise<Sink> {
  const { extraTags, statsd, isExplicit } = options;
  const { createStatsdSink, dogStatsdNames, statsdNames } = await import('./statsd.ts');
  const names = options.kind === 'dogstatsd' ? dogStatsdNames(extraTags, options.mogrifiers) : statsdNames(extraTags);
  const at = `${statsd.host}:${statsd.port}`;
  const state = isExplicit ? background.add('statistics', `sending statistics to ${at}`) : undefined; // most machines have no daemon
  return createStatsdSink({
    ...statsd,
    names,
    gauges: () => referenceGauges(source.figures()),
    counters: () => referenceCounters(source.statistics),
    sentBefore: () => referenceCounters(source.earlier),
    onDown: (error) => (state ? state.failed(error) : log.info(`no statistics to ${at}: ${error.message}`)),
    onUp: () => (state ? state.works() : log.info(`sending statistics to ${at}`)),
  });
}

async function servePrometheus(
  { prometheus, extraTags }: Settings['sink'],
  { statistics, figures, refresh }: MetricsSource,
  { log }: ProcessContext,
): Promise<Sink> {
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
