import { debugRoutes } from '../http/debug.ts';
import type { Route } from '../http/server.ts';
import type { Logger } from '../observe/log.ts';
import type { Metrics } from '../observe/prometheus.ts';
import { referenceCounters } from '../observe/reference-names.ts';
import type { Settings } from '../settings.ts';
import type { OnCall } from '../transport/grpc-server.ts';
import type { AdminPages } from './admin.ts';
import type { Core } from './core.ts';
import { at, openHttp } from './http.ts';
import { createParts, type Part } from './parts.ts';
import { type MetricsSource, openSink } from './sinks.ts';

/** The debug port, and the sink of statistics. */
export interface OpsServer extends Part {
  /** The address of the debug port. */
  readonly debug: string;
  /** Records a gRPC call. */
  readonly called: OnCall;
}

/** @throws CannotStart if DEBUG_PORT or PROMETHEUS_ADDR cannot be bound */
export async function openOpsServer(
  settings: Settings,
  { rules }: Pick<Core, 'rules'>,
  source: MetricsSource,
  metrics: Metrics,
  admin: AdminPages,
  more: ReadonlyMap<string, Route>,
  log: Logger,
): Promise<OpsServer> {
  const { statistics, gauges, refresh } = source;
  const parts = createParts();
  try {
    const sink = parts.add(await openSink(settings, source, log));
    const pages = debugRoutes(
      {
        rules: rules.book.rules,
        lastLoad: rules.lastLoad,
        async metrics(format = 'text') {
          await refresh();
          const { contentType, body } = await metrics.render(format);
          return { contentType, body: `${await admin.metrics(format)}${body}` };
        },
        async statistics() {
          await refresh();
          return joined(await referenceCounters(statistics), gauges());
        },
      },
      new Map([...admin.routes, ...more]),
    );
    const address = { host: settings.DEBUG_HOST, port: settings.DEBUG_PORT };
    const tls = admin.tls && parts.add(await admin.tls());
    const debug = await openHttp('DEBUG_PORT', address, pages, log, tls && { tls });
    parts.add({ close: () => debug.close(0) });
    return {
      debug: at({ ...address, port: debug.port }),
      called(method, status, elapsedMs) {
        metrics.called(method, status, elapsedMs);
        sink.called(method, elapsedMs);
      },
      close: parts.close,
    };
  } catch (error) {
    await parts.close();
    throw error;
  }
}

function* joined<T>(one: Iterable<T>, other: Iterable<T>): Iterable<T> {
  yield* one;
  yield* other;
}
