import { compressed } from '../http/compressed.ts';
import { metricsRoute } from '../http/metrics.ts';
import { startHttpServer } from '../http/server.ts';
import type { Logger } from '../observe/log.ts';
import { referenceCounters } from '../observe/reference-names.ts';
import type { Statistics } from '../observe/stats.ts';
import { dogStatsdNames, type StatsdNames, statsdNames } from '../observe/statsd-names.ts';
import type { Settings } from '../settings.ts';
import { start } from './cannot-start.ts';

/** A destination of statistics besides the debug port. */
export interface Sink {
  /** Records the duration of a gRPC call. */
  called(method: string, elapsedMs: number): void;
  close(): Promise<void>;
}

/** The statistics of all processes. */
export interface MetricsSource {
  readonly statistics: Statistics;
  /** Gauges by their StatsD names. */
  readonly gauges: () => ReadonlyMap<string, number>;
  /** Updates both. */
  readonly refresh: () => Promise<void>;
}

/** @throws CannotStart if PROMETHEUS_ADDR cannot be bound */
export async function openSink(settings: Settings, source: MetricsSource, log: Logger): Promise<Sink> {
  const { sink } = settings;
  switch (sink.kind) {
    case 'none':
      return { called: () => {}, close: async () => {} };
    case 'prometheus':
      return servePrometheus(settings, source, log);
    default: {
      const names: StatsdNames =
        sink.kind === 'statsd'
          ? statsdNames(settings.EXTRA_TAGS)
          : dogStatsdNames(settings.EXTRA_TAGS, sink.mogrifiers, ({ label }) =>
              log.error(`DOG_STATSD_MOGRIFIER_${label}_PATTERN takes too long and is ignored from now on`),
            );
      const { createStatsdSink } = await import('../observe/statsd.ts');
      const { STATSD_HOST: host, STATSD_PORT: port } = settings;
      const isExplicit = settings.USE_STATSD !== undefined || sink.kind === 'dogstatsd';
      return createStatsdSink({
        host,
        port,
        protocol: sink.kind === 'statsd' ? settings.STATSD_PROTOCOL : 'udp',
        flushIntervalMs: settings.STATS_FLUSH_INTERVAL,
        names,
        counters: () => referenceCounters(source.statistics),
        gauges: source.gauges,
        onDown: (error) => log[isExplicit ? 'warn' : 'info'](`no statistics to ${host}:${port}: ${error.message}`),
        onUp: () => log.info(`sending statistics to ${host}:${port}`),
      });
    }
  }
}

async function servePrometheus(
  settings: Settings,
  { statistics, gauges, refresh }: MetricsSource,
  log: Logger,
): Promise<Sink> {
  const { PROMETHEUS_ADDR: address, PROMETHEUS_PATH: path } = settings;
  const { createReferenceMetrics } = await import('../observe/prometheus-reference.ts');
  const metrics = createReferenceMetrics(statistics, {
    extraTags: settings.EXTRA_TAGS,
    responseTimeAsMilliseconds: settings.PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS,
    gauges,
  });
  const render = async () => {
    await refresh();
    return metrics.render();
  };
  const routes = new Map([[path, compressed(metricsRoute(render))]]);
  const server = await start('PROMETHEUS_ADDR', `cannot listen on ${address.host}:${address.port}`, () =>
    startHttpServer(address, routes, (error) => log.error({ err: error }, 'the metrics page failed')),
  );
  return { called: metrics.called, close: () => server.close(0) };
}
